// Models on the processor and what all of them have in common: weights, steps, content of KV blocks and states.

#include <algorithm>

#include "addon/addon-sampler.h"
#include "addon/functions.h"
#include "addon/model-handle.h"
#include "addon/step-input.h"
#include "addon/to-record.h"
#include "model/reader.h"

namespace chairlift {

namespace {

/** create(threads, isa, threadNodes: Int32Array, coreNodes: Int32Array): handle; both empty where all memory is as near */
napi_value create(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    const auto args = arguments(env, info, 4);
    const int threads = toInt(env, args[0]);
    const std::vector<int> ofThread = toInt32Array(env, args[2], "threadNodes").copy();
    if (!ofThread.empty() && ofThread.size() != size_t(threads)) throw ScriptError("native addon: a node for each thread");
    auto handle = std::make_unique<Handle>();
    handle->kernels = &chooseKernels(toString(env, args[1]));
    handle->pool = std::make_shared<ThreadPool>(
        threads, ThreadNodes(ofThread, toInt32Array(env, args[3], "coreNodes").copy()));
    return toExternal(env, std::move(handle));
  });
}

/** createSampler(threads), with threads of its own, or createSampler(handle), with the model's: sampler */
napi_value createSampler(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    const napi_value argument = arguments(env, info, 1)[0];
    napi_valuetype type;
    check(napi_typeof(env, argument, &type), "cannot read the argument");
    return makeSampler(env, type == napi_external ? toHandle(env, argument).pool
                                                  : std::make_shared<ThreadPool>(toInt(env, argument)));
  });
}

/** addMatrix(handle, type, outputs, inputs, members): number */
napi_value addMatrix(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    const auto args = arguments(env, info, 5);
    Handle& handle = toHandle(env, args[0]);
    const SourceFormat& format = toFormat(env, args[1]);
    const int inputs = toInt(env, args[3]);
    if (inputs % format.blockSize != 0) throw ScriptError("native addon: rows of broken blocks");
    const int outputs = toInt(env, args[2]), members = toInt(env, args[4]);
    if (handle.device) {
      const auto matrix = Matrix::withoutPanels(format, outputs, inputs, members);
      handle.weights->add(matrix, std::make_unique<cuda::DeviceMatrix>(*handle.device, matrix->member(), matrix->panels(), members));
      handle.matrices.push_back(matrix);
    } else {
      handle.matrices.push_back(std::make_shared<Matrix>(format, outputs, inputs, members));
      handle.matrices.back()->placeOn(handle.pool->nodes());
    }
    return fromNumber(env, double(handle.matrices.size() - 1));
  });
}

/** packRows(handle, matrix, member, firstRow, count, bytes: Uint8Array): Promise<void> */
napi_value packRows(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    const auto args = arguments(env, info, 6);
    Handle& handle = toHandle(env, args[0]);
    const auto matrix = handle.matrices.at(size_t(toInt(env, args[1])));
    const int member = toInt(env, args[2]), firstRow = toInt(env, args[3]), count = toInt(env, args[4]);
    const auto bytes = toByteArray(env, args[5], "bytes");
    if (member < 0 || member >= matrix->members() || firstRow < 0 || count < 0 || firstRow % panelColumns != 0 ||
        count > matrix->outputs() - firstRow || bytes.length < size_t(count) * matrix->rowBytes()) {
      throw ScriptError("native addon: rows outside the matrix");
    }
    if (handle.device) {
      return runOffThread(env, handle, "chairlift.packRows", {args[0], args[5]},
                          [&handle, matrix, member, firstRow, rows = bytes.data, count] {
                            handle.weights->fill(*handle.pool, *matrix, member, firstRow, rows, count);
                          });
    }
    return runOffThread(env, handle, "chairlift.packRows", {args[0], args[5]},
                        [pool = handle.pool, matrix, member, firstRow, rows = bytes.data, count] {
                          chairlift::packRows(*pool, *matrix, member, firstRow, rows, count);
                        });
  });
}

bool hasValuesInKeys(const KvLayout& kv) {
  return std::any_of(kv.caches.begin(), kv.caches.end(), [](const KvCache& cache) { return cache.valuesInKeys > 0; });
}

/** assemble(handle, model, kvType, blockCount, stateSlots); `model` is that of native-model.ts */
napi_value assemble(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    const auto args = arguments(env, info, 5);
    Handle& handle = toHandle(env, args[0]);
    const Record description = toRecord(env, args[1], "model");
    ModelParts parts = readModel(description, handle.matrices);
    parts.kv.type = toKvType(env, args[2]);
    if (parts.kv.type == KvType::Q4 && (handle.device || hasValuesInKeys(parts.kv))) {
      throw ScriptError("native addon: KV of four bits is of values on their own, on the processor");
    }
    if (handle.device) {
      if (parts.mtp) throw ScriptError("native addon: no MTP head is computed on a GPU");
      handle.cudaModel = std::make_shared<cuda::CudaModel>(std::move(handle.device), std::move(handle.weights), std::move(parts),
                                                           toInt(env, args[3]), toInt(env, args[4]));
      if (const Record* tower = description.maybe("tower")) {
        handle.cudaTower = std::make_shared<cuda::CudaTower>(handle.cudaModel, readTower(*tower, handle.matrices));
      }
      handle.matrices.clear();
      return undefinedValue(env);
    }
    handle.model = std::make_shared<Model>(std::move(parts), toInt(env, args[3]), toInt(env, args[4]),
                                           *handle.kernels, handle.pool);
    if (handle.model->predicts()) handle.drafts = std::make_shared<Drafts>(handle.model, handle.pool);
    if (const Record* tower = description.maybe("tower")) {
      handle.tower = std::make_shared<const Tower>(readTower(*tower, handle.matrices));
    }
    handle.matrices.clear();
    return undefinedValue(env);
  });
}

template <class AnyModel>
napi_value stepOf(napi_env env, napi_callback_info info, std::shared_ptr<AnyModel> Handle::*member) {
  const auto args = arguments(env, info, 4);
  Handle& handle = toHandle(env, args[0]);
  const std::shared_ptr<AnyModel> model = handle.*member;
  StepInput input = readBatch(env, args[1], model->isRecurrent());
  std::vector<napi_value> held{args[0], args[2], args[3]};
  readImages(env, args[1], input, held);
  const auto logits = toFloatArray(env, args[2], "logits"), states = toFloatArray(env, args[3], "states");
  if (logits.length < input.logitRows.size() * size_t(model->vocabSize()) ||
      states.length < input.stateRows.size() * size_t(model->hiddenSize())) {
    throw ScriptError("native addon: too little room for the results");
  }
  return runOffThread(env, handle, "chairlift.step", held,
                      [model, input = std::move(input), to = logits.data, into = states.data] {
                        model->step(input, to, into);
                      });
}

/** step(handle, batch, logits: Float32Array, states: Float32Array): Promise<void> */
napi_value step(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    const napi_value handle = arguments(env, info, 4)[0];
    if (toHandle(env, handle).cudaModel) return stepOf(env, info, &Handle::cudaModel);
    toModel(env, handle);
    return stepOf(env, info, &Handle::model);
  });
}

napi_value useThreads(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    const auto args = arguments(env, info, 2);
    toModel(env, args[0]).useThreads(toInt(env, args[1]));
    return undefinedValue(env);
  });
}

/** releaseBlocks(handle, blocks: Int32Array): their content is lost */
napi_value releaseBlocks(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    const auto args = arguments(env, info, 2);
    Model& model = toModel(env, args[0]);
    const auto blocks = toInt32Array(env, args[1], "blocks").copy();
    for (int32_t block : blocks) {
      if (block < 0 || block >= model.blockCount()) throw ScriptError("native addon: no such block");
    }
    model.releaseBlocks(blocks);
    return undefinedValue(env);
  });
}

/** Runs `use` with the model, wherever it computes: both give and take content alike. */
template <class Use>
napi_value withAnyModel(napi_env env, napi_value value, const Use& use) {
  const Handle& handle = toHandle(env, value);
  if (handle.cudaModel) return use(*handle.cudaModel);
  return use(toModel(env, value));
}

/** contentBytes(handle): what a KV block and a slot of recurrent states hold */
napi_value contentBytes(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    return withAnyModel(env, arguments(env, info, 1)[0], [&](const auto& model) {
      napi_value result;
      check(napi_create_object(env, &result), "cannot make an object");
      check(napi_set_named_property(env, result, "block", fromNumber(env, double(model.blockBytes()))), "block");
      check(napi_set_named_property(env, result, "state", fromNumber(env, double(model.stateBytes()))), "state");
      return result;
    });
  });
}

/** Calls `copy` with the model, the number and the bytes of a call for the content of a block or a slot. */
template <class Copy>
napi_value copyContent(napi_env env, napi_callback_info info, bool isState, const Copy& copy) {
  return guarded(env, [&] {
    const auto args = arguments(env, info, 3);
    const int number = toInt(env, args[1]);
    const auto bytes = toByteArray(env, args[2], "bytes");
    return withAnyModel(env, args[0], [&](auto& model) {
      const int count = isState ? model.stateSlots() : model.blockCount();
      if (number < 0 || number >= count) throw ScriptError(isState ? "native addon: no such slot" : "native addon: no such block");
      if (bytes.length != (isState ? model.stateBytes() : model.blockBytes())) throw ScriptError("native addon: content of another size");
      copy(model, number, bytes.data);
      return undefinedValue(env);
    });
  });
}

/** readBlock(handle, block, to: Uint8Array): copies what a KV block holds; of a GPU, where it has memory */
napi_value readBlock(napi_env env, napi_callback_info info) {
  return copyContent(env, info, false, [](auto& model, int block, uint8_t* to) { model.readBlock(block, to); });
}

/** writeBlock(handle, block, from: Uint8Array) */
napi_value writeBlock(napi_env env, napi_callback_info info) {
  return copyContent(env, info, false, [](auto& model, int block, const uint8_t* from) { model.writeBlock(block, from); });
}

/** readState(handle, slot, to: Uint8Array): the same of a slot of recurrent states */
napi_value readState(napi_env env, napi_callback_info info) {
  return copyContent(env, info, true, [](auto& model, int slot, uint8_t* to) { model.readState(slot, to); });
}

/** writeState(handle, slot, from: Uint8Array) */
napi_value writeState(napi_env env, napi_callback_info info) {
  return copyContent(env, info, true, [](auto& model, int slot, const uint8_t* from) { model.writeState(slot, from); });
}

/** destroy(handle): gives the memory back now rather than when the handle is collected. */
napi_value destroy(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    const auto args = arguments(env, info, 1);
    Handle& handle = toHandle(env, args[0]);
    handle.matrices.clear();
    handle.model.reset();
    handle.drafts.reset();
    handle.tower.reset();
    handle.cudaTower.reset();
    handle.cudaModel.reset();
    handle.weights.reset();
    handle.device.reset();
    handle.pool.reset();
    return undefinedValue(env);
  });
}

}  // namespace

const std::vector<Function>& modelFunctions() {
  static const std::vector<Function> all = {
      {"create", create},
      {"createSampler", createSampler},
      {"addMatrix", addMatrix},
      {"packRows", packRows},
      {"assemble", assemble},
      {"step", step},
      {"useThreads", useThreads},
      {"releaseBlocks", releaseBlocks},
      {"contentBytes", contentBytes},
      {"readBlock", readBlock},
      {"writeBlock", writeBlock},
      {"readState", readState},
      {"writeState", writeState},
      {"destroy", destroy},
  };
  return all;
}

}  // namespace chairlift
