// Models on a GPU, their steps that sample there, and products and copies on their own.

#include <algorithm>
#include <chrono>

#include "addon/functions.h"
#include "addon/model-handle.h"
#include "addon/step-input.h"
#include "cuda/probe.h"
#ifdef CHAIRLIFT_SIMULATED_GPU
#include "cuda/simulator/simulated-device.h"
#endif

namespace chairlift {

namespace {

std::unique_ptr<cuda::Device> openDevice(int ordinal, const uint8_t* image) {
#ifdef CHAIRLIFT_SIMULATED_GPU
  (void)ordinal, (void)image;
  return cuda::simulatedDevice();
#else
  return cuda::openDevice(ordinal, image);
#endif
}

/** createOnGpu(threads, gpu, kernels: Uint8Array): handle; `threads` pack weights and sample */
napi_value createOnGpu(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    const auto args = arguments(env, info, 3);
    auto handle = std::make_unique<Handle>();
    handle->kernels = bestKernels();
    handle->device = openDevice(toInt(env, args[1]), toByteArray(env, args[2], "kernels").data);
    handle->weights = std::make_unique<cuda::DeviceWeights>(*handle->device);
    handle->pool = std::make_shared<ThreadPool>(toInt(env, args[0]));
    return toExternal(env, std::move(handle));
  });
}

/** addKernels(handle, kernels: Uint8Array): beside those of `createOnGpu` */
napi_value addKernels(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    const auto args = arguments(env, info, 2);
    Handle& handle = toHandle(env, args[0]);
    if (!handle.device) throw ScriptError("native addon: no GPU that takes kernels");
    handle.device->addKernels(toByteArray(env, args[1], "kernels").data);
    return undefinedValue(env);
  });
}

/** gpus(): what NVIDIA's driver finds; throws where there is none */
napi_value gpus(napi_env env, napi_callback_info) {
  return guarded(env, [&] {
#ifdef CHAIRLIFT_SIMULATED_GPU
    const std::vector<cuda::DeviceInfo> all{{"a simulated GPU", 90, size_t(4) << 30}};
#else
    const std::vector<cuda::DeviceInfo> all = cuda::listDevices();
#endif
    napi_value list;
    check(napi_create_array(env, &list), "cannot make a list");
    uint32_t index = 0;
    for (const cuda::DeviceInfo& info : all) {
      napi_value one, name;
      check(napi_create_object(env, &one), "cannot make an object");
      check(napi_create_string_utf8(env, info.name.c_str(), NAPI_AUTO_LENGTH, &name), "cannot make a name");
      check(napi_set_named_property(env, one, "name", name), "name");
      check(napi_set_named_property(env, one, "capability", fromNumber(env, info.capability)), "capability");
      check(napi_set_named_property(env, one, "bytes", fromNumber(env, double(info.totalBytes))), "bytes");
      check(napi_set_element(env, list, index++, one), "cannot fill a list");
    }
    return list;
  });
}

/** gpuFreeBytes(gpu): what is free of a GPU's memory */
napi_value gpuFreeBytes(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    const int ordinal = toInt(env, arguments(env, info, 1)[0]);
#ifdef CHAIRLIFT_SIMULATED_GPU
    (void)ordinal;
    return fromNumber(env, double(cuda::simulatedDevice()->freeBytes()));
#else
    return fromNumber(env, double(cuda::freeBytesOf(ordinal)));
#endif
  });
}

/** timeGpuCopy(gpu, kernels: Uint8Array, megabytes): seconds that a GPU takes to copy them within its memory */
napi_value timeGpuCopy(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    const auto args = arguments(env, info, 3);
    const auto device = openDevice(toInt(env, args[0]), toByteArray(env, args[1], "kernels").data);
    const size_t bytes = size_t(toInt(env, args[2])) << 20;
    cuda::DeviceMemory from(*device, bytes), to(*device, bytes);
    const auto copy = [&] {
      const auto began = std::chrono::steady_clock::now();
      device->copy(to.as<uint8_t>(), from.as<uint8_t>(), bytes);
      device->wait();
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    };
    double best = copy();
    for (int repeat = 0; repeat < 5; repeat++) best = std::min(best, copy());
    return fromNumber(env, best);
  });
}

/** profileStep(handle, batch): for each kernel its name, launches and microseconds; waits for it */
napi_value profileStep(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    const auto args = arguments(env, info, 2);
    cuda::CudaModel& model = toCudaModel(env, args[0]);
    napi_value list;
    check(napi_create_array(env, &list), "cannot make a list");
    uint32_t index = 0;
    for (const auto& [kernel, time] : model.profile(readBatch(env, args[1], model.isRecurrent()))) {
      napi_value one, name;
      check(napi_create_object(env, &one), "cannot make an object");
      check(napi_create_string_utf8(env, kernel.c_str(), NAPI_AUTO_LENGTH, &name), "cannot make a name");
      check(napi_set_named_property(env, one, "kernel", name), "kernel");
      check(napi_set_named_property(env, one, "launches", fromNumber(env, time.launches)), "launches");
      check(napi_set_named_property(env, one, "microseconds", fromNumber(env, time.microseconds)), "microseconds");
      check(napi_set_element(env, list, index++, one), "cannot fill a list");
    }
    return list;
  });
}

/** Jobs of `rows` rows and their lists. */
cuda::SamplingInput readSampling(napi_env env, napi_value jobs, napi_value lists, size_t rows) {
  using namespace cuda::sampling;
  cuda::SamplingInput input{toWordArray(env, jobs, "jobs").copy(), int(rows), toInt(env, lists)};
  if (input.lists < 0 || input.lists > jobsOfRow || input.words.size() < rows * jobsOfRow * wordsOfJob) {
    throw ScriptError("native addon: too few jobs of sampling");
  }
  return input;
}

/** canSample(handle): whether a GPU samples in its steps */
napi_value canSample(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    return fromBoolean(env, toCudaModel(env, arguments(env, info, 1)[0]).canSample());
  });
}

/**
 * stepAndSample(handle, batch, jobs: Uint32Array, lists, found: Uint32Array, states: Float32Array): Promise<void> | undefined;
 * undefined: the GPU is at work, and `isStepDone` says when its results are there
 */
napi_value stepAndSample(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    const auto args = arguments(env, info, 6);
    cuda::CudaModel& model = toCudaModel(env, args[0]);
    Handle& handle = toHandle(env, args[0]);
    StepInput input = readBatch(env, args[1], model.isRecurrent());
    std::vector<napi_value> held{args[0], args[4], args[5]};
    readImages(env, args[1], input, held);
    cuda::SamplingInput sampling = readSampling(env, args[2], args[3], input.logitRows.size());
    const auto found = toWordArray(env, args[4], "found");
    const auto states = toFloatArray(env, args[5], "states");
    if (found.length < sampling.foundWords() || states.length < input.stateRows.size() * size_t(model.hiddenSize())) {
      throw ScriptError("native addon: too little room for the results");
    }
    if (model.isRecorded(input, sampling)) {
      model.start(input, sampling, found.data, states.data);
      handle.busy = handle.isComputing = true;
      return undefinedValue(env);
    }
    return runOffThread(env, handle, "chairlift.stepAndSample", held,
                        [model = handle.cudaModel, input = std::move(input), sampling = std::move(sampling), to = found.data,
                         into = states.data] {
                          model->start(input, sampling, to, into);
                          model->finish();
                        });
  });
}

/** isStepDone(handle): boolean; of a step that `stepAndSample` has left at work. Then its results are there, or it throws. */
napi_value isStepDone(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    Handle& handle = toAnyHandle(env, arguments(env, info, 1)[0]);
    if (!handle.cudaModel) throw ScriptError("native addon: the model is not on a GPU");
    bool isDone = true;
    try {
      isDone = handle.cudaModel->isFinished();
      if (isDone) handle.cudaModel->finish();
    } catch (...) {
      handle.busy = handle.isComputing = false;
      throw;
    }
    if (isDone) handle.busy = handle.isComputing = false;
    return fromBoolean(env, isDone);
  });
}

/** prepareStep(handle, batch, jobs: Uint32Array, lists): boolean; while `stepAndSample` has left a step at work */
napi_value prepareStep(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    const auto args = arguments(env, info, 4);
    Handle& handle = toAnyHandle(env, args[0]);
    if (!handle.isComputing) throw ScriptError("native addon: no step is under way on a GPU");
    cuda::CudaModel& model = *handle.cudaModel;
    StepInput input = readBatch(env, args[1], model.isRecurrent());
    // Steps with rows of images are not prepared: their values are read by none.
    std::vector<napi_value> values;
    readImages(env, args[1], input, values);
    const cuda::SamplingInput sampling = readSampling(env, args[2], args[3], input.logitRows.size());
    return fromBoolean(env, model.prepareNext(input, sampling));
  });
}

/** startPrepared(handle, tokens: Int32Array, found: Uint32Array): void; what `prepareStep` has prepared, `isStepDone` says when it is done */
napi_value startPrepared(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    const auto args = arguments(env, info, 3);
    cuda::CudaModel& model = toCudaModel(env, args[0]);
    Handle& handle = toHandle(env, args[0]);
    const auto found = toWordArray(env, args[2], "found");
    if (found.length < model.preparedWords()) throw ScriptError("native addon: too little room for the results");
    model.startPrepared(toInt32Array(env, args[1], "tokens").copy(), found.data);
    handle.busy = handle.isComputing = true;
    return undefinedValue(env);
  });
}

/** readLogits(handle, rows: Int32Array, logits: Float32Array): Promise<void>; of the last step */
napi_value readLogits(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    const auto args = arguments(env, info, 3);
    cuda::CudaModel& model = toCudaModel(env, args[0]);
    Handle& handle = toHandle(env, args[0]);
    std::vector<int32_t> rows = toInt32Array(env, args[1], "rows").copy();
    const auto logits = toFloatArray(env, args[2], "logits");
    if (logits.length < rows.size() * size_t(model.vocabSize())) throw ScriptError("native addon: too little room for the results");
    return runOffThread(env, handle, "chairlift.readLogits", {args[0], args[2]},
                        [held = handle.cudaModel, rows = std::move(rows), to = logits.data] { held->readLogits(rows, to); });
  });
}

/**
 * probeSampling(gpu, kernels: Uint8Array, logits: Float32Array, vocabSize, jobs: Uint32Array, lists, repeats, found: Uint32Array):
 * seconds of one repetition; for tests and benchmarks
 */
napi_value probeSampling(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    const auto args = arguments(env, info, 8);
    const auto logits = toFloatArray(env, args[2], "logits");
    const int vocabSize = toInt(env, args[3]);
    const cuda::SamplingInput input = readSampling(env, args[4], args[5], logits.length / size_t(vocabSize));
    const auto found = toWordArray(env, args[7], "found");
    if (found.length < input.foundWords()) throw ScriptError("native addon: too little room for the results");
    const auto device = openDevice(toInt(env, args[0]), toByteArray(env, args[1], "kernels").data);
    return fromNumber(env, cuda::probeSampling(*device, logits.copy(), vocabSize, input, toInt(env, args[6]), found.data));
  });
}

/** fitBlocks(handle, needed, most): how many KV blocks of a GPU have memory now */
napi_value fitBlocks(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    const auto args = arguments(env, info, 3);
    return fromNumber(env, toCudaModel(env, args[0]).fitBlocks(toInt(env, args[1]), toInt(env, args[2])));
  });
}

/** moveBlocks(handle, moves: Int32Array): copies KV blocks of a GPU, each pair one from a place to another */
napi_value moveBlocks(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    const auto args = arguments(env, info, 2);
    cuda::CudaModel& model = toCudaModel(env, args[0]);
    const auto moves = toInt32Array(env, args[1], "moves").copy();
    for (int32_t place : moves) {
      if (place < 0 || place >= model.blockCapacity()) throw ScriptError("native addon: a block without memory");
    }
    for (size_t i = 0; i + 1 < moves.size(); i += 2) model.moveBlock(moves[i], moves[i + 1]);
    return undefinedValue(env);
  });
}

/** { type, outputs, inputs, members, rows, tiles: Int32Array, family } */
cuda::ProbedProduct toProbedProduct(napi_env env, napi_value value) {
  const auto integer = [&](const char* name) { return toInt(env, property(env, value, name)); };
  cuda::ProbedProduct product{toFormat(env, property(env, value, "type")),
                              integer("outputs"),
                              integer("inputs"),
                              integer("members"),
                              integer("rows"),
                              {},
                              toString(env, property(env, value, "family"))};
  const auto tiles = toInt32Array(env, property(env, value, "tiles"), "tiles").copy();
  for (size_t i = 0; i + 2 < tiles.size(); i += 3) product.tiles.push_back({tiles[i], tiles[i + 1], tiles[i + 2]});
  return product;
}

/** multiplyOnGpu(gpu, kernels: Uint8Array, product, weights: Uint8Array, x: Float32Array, out: Float32Array): for tests */
napi_value multiplyOnGpu(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    const auto args = arguments(env, info, 6);
    const auto device = openDevice(toInt(env, args[0]), toByteArray(env, args[1], "kernels").data);
    cuda::probeProduct(*device, toProbedProduct(env, args[2]), toByteArray(env, args[3], "weights").data,
                       toFloatArray(env, args[4], "x").data, toFloatArray(env, args[5], "out").data);
    return undefinedValue(env);
  });
}

/** timeMultiplyOnGpu(gpu, kernels: Uint8Array, product, repeats): seconds per product */
napi_value timeMultiplyOnGpu(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    const auto args = arguments(env, info, 4);
    const auto device = openDevice(toInt(env, args[0]), toByteArray(env, args[1], "kernels").data);
    return fromNumber(env, cuda::probeProductTime(*device, toProbedProduct(env, args[2]), toInt(env, args[3])));
  });
}

}  // namespace

const std::vector<Function>& gpuFunctions() {
  static const std::vector<Function> all = {
      {"createOnGpu", createOnGpu},
      {"addKernels", addKernels},
      {"gpus", gpus},
      {"gpuFreeBytes", gpuFreeBytes},
      {"timeGpuCopy", timeGpuCopy},
      {"profileStep", profileStep},
      {"canSample", canSample},
      {"stepAndSample", stepAndSample},
      {"isStepDone", isStepDone},
      {"prepareStep", prepareStep},
      {"startPrepared", startPrepared},
      {"readLogits", readLogits},
      {"probeSampling", probeSampling},
      {"fitBlocks", fitBlocks},
      {"moveBlocks", moveBlocks},
      {"multiplyOnGpu", multiplyOnGpu},
      {"timeMultiplyOnGpu", timeMultiplyOnGpu},
  };
  return all;
}

}  // namespace chairlift
