// The Node-API surface: builds a Model from JavaScript and runs its steps off the JavaScript thread.
// src/compute/cpu/binding.ts is the only caller; it validates, this copies to plain structs.

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>

#include "addon/addon-sampler.h"
#include "addon/napi-values.h"
#include "addon/probe.h"
#include "addon/to-record.h"
#include "cuda/driver-device.h"
#include "cuda/model.h"
#include "cuda/probe.h"
#include "cuda/tower/view-run.h"
#include "kernels/dispatch.h"
#include "model/model.h"
#include "model/reader.h"
#include "tower/tower-run.h"
#ifdef CHAIRLIFT_SIMULATED_GPU
#include "cuda/simulator/simulated-device.h"
#endif

namespace chairlift {

namespace {

/** What JavaScript holds: its matrices are filled first, then the model is assembled from them. */
struct Handle {
  std::shared_ptr<ThreadPool> pool;
  const KernelTable* kernels = nullptr;
  std::vector<std::shared_ptr<Matrix>> matrices;
  std::shared_ptr<Model> model;
  // Where the model sees.
  std::shared_ptr<const Tower> tower;
  // Where a GPU computes: its weights while they are uploaded, then its model.
  std::unique_ptr<cuda::Device> device;
  std::unique_ptr<cuda::DeviceWeights> weights;
  std::shared_ptr<cuda::CudaModel> cudaModel;
  std::shared_ptr<cuda::CudaTower> cudaTower;
  // Set while a task runs off the JavaScript thread, or a step on a GPU: nothing else may touch the model.
  bool busy = false;
  // The latter: the next step may be prepared meanwhile.
  bool isComputing = false;
};

Handle& toAnyHandle(napi_env env, napi_value value) {
  void* data;
  check(napi_get_value_external(env, value, &data), "expected a model handle");
  Handle& handle = *static_cast<Handle*>(data);
  if (!handle.pool) throw ScriptError("native addon: the model is closed");
  return handle;
}

Handle& toHandle(napi_env env, napi_value value) {
  Handle& handle = toAnyHandle(env, value);
  if (handle.busy) throw ScriptError("native addon: the model is busy; await the last call");
  return handle;
}

cuda::CudaModel& toCudaModel(napi_env env, napi_value value) {
  const Handle& handle = toHandle(env, value);
  if (!handle.cudaModel) throw ScriptError("native addon: the model is not on a GPU");
  return *handle.cudaModel;
}

Model& toModel(napi_env env, napi_value value) {
  const Handle& handle = toHandle(env, value);
  if (!handle.model) throw ScriptError("native addon: the model is not assembled yet");
  return *handle.model;
}

KvType toKvType(napi_env env, napi_value value) { return toString(env, value) == "q8" ? KvType::Q8 : KvType::F16; }

const KernelTable& chooseKernels(const std::string& name) {
  if (name.empty()) return *bestKernels();
  const KernelTable* table = findKernels(name.c_str());
  if (!table) throw ScriptError("native addon: this machine has no kernels named " + name);
  return *table;
}

const SourceFormat& toFormat(napi_env env, napi_value value) {
  const std::string type = toString(env, value);
  const SourceFormat* format = findFormat(type.c_str());
  if (!format) throw ScriptError("native addon: no tensor type named " + type);
  return *format;
}

/** A task off the JavaScript thread, and the values that must live until its promise settles. */
struct Task {
  std::function<void()> run;
  Handle* handle;
  std::vector<napi_ref> references;
  std::string error;
  napi_deferred deferred = nullptr;
  napi_async_work work = nullptr;
};

void executeTask(napi_env, void* data) {
  Task& task = *static_cast<Task*>(data);
  try {
    task.run();
  } catch (const std::exception& error) {
    task.error = error.what();
  }
}

void completeTask(napi_env env, napi_status, void* data) {
  std::unique_ptr<Task> task(static_cast<Task*>(data));
  task->handle->busy = false;
  for (napi_ref reference : task->references) napi_delete_reference(env, reference);
  napi_delete_async_work(env, task->work);
  napi_value value;
  if (task->error.empty()) {
    napi_get_undefined(env, &value);
    napi_resolve_deferred(env, task->deferred, value);
  } else {
    napi_value message;
    napi_create_string_utf8(env, task->error.c_str(), NAPI_AUTO_LENGTH, &message);
    napi_create_error(env, nullptr, message, &value);
    napi_reject_deferred(env, task->deferred, value);
  }
}

/** `run` may use the memory of the JavaScript values in `held`, the handle among them, until the promise settles. */
napi_value runOffThread(napi_env env, Handle& handle, const char* name, const std::vector<napi_value>& held,
                        std::function<void()> run) {
  auto task = std::make_unique<Task>();
  task->run = std::move(run);
  task->handle = &handle;
  napi_value promise, resource;
  check(napi_create_string_utf8(env, name, NAPI_AUTO_LENGTH, &resource), "cannot name a task");
  check(napi_create_async_work(env, nullptr, resource, executeTask, completeTask, task.get(), &task->work),
        "cannot make a task");
  check(napi_create_promise(env, &task->deferred, &promise), "cannot make a promise");
  for (napi_value value : held) {
    task->references.emplace_back();
    check(napi_create_reference(env, value, 1, &task->references.back()), "cannot hold a value");
  }
  check(napi_queue_async_work(env, task->work), "cannot queue a task");
  handle.busy = true;
  task.release();
  return promise;
}

napi_value toExternal(napi_env env, std::unique_ptr<Handle> handle) {
  napi_value external;
  check(napi_create_external(
            env, handle.get(), [](napi_env, void* data, void*) { delete static_cast<Handle*>(data); }, nullptr, &external),
        "cannot make a handle");
  handle.release();
  return external;
}

/** create(threads, isa): handle */
napi_value create(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    const auto args = arguments(env, info, 2);
    auto handle = std::make_unique<Handle>();
    handle->kernels = &chooseKernels(toString(env, args[1]));
    handle->pool = std::make_shared<ThreadPool>(toInt(env, args[0]));
    return toExternal(env, std::move(handle));
  });
}

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

/** assemble(handle, model, kvType, blockCount, stateSlots); `model` is that of native-model.ts */
napi_value assemble(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    const auto args = arguments(env, info, 5);
    Handle& handle = toHandle(env, args[0]);
    const Record description = toRecord(env, args[1], "model");
    ModelParts parts = readModel(description, handle.matrices);
    parts.kv.type = toKvType(env, args[2]);
    if (handle.device) {
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
    if (const Record* tower = description.maybe("tower")) {
      handle.tower = std::make_shared<const Tower>(readTower(*tower, handle.matrices));
    }
    handle.matrices.clear();
    return undefinedValue(env);
  });
}

/** Of what a batch may carry for images; the values stay where they are, and are added to `held`. */
void readImages(napi_env env, napi_value batch, StepInput& input, std::vector<napi_value>& held) {
  if (const auto positions = maybeProperty(env, batch, "rotaryPositions")) {
    input.rotaryPositions = toInt32Array(env, *positions, "rotaryPositions").copy();
  }
  if (const auto ends = maybeProperty(env, batch, "imageEnds")) {
    input.imageEnds = toInt32Array(env, *ends, "imageEnds").copy();
  }
  const auto images = maybeProperty(env, batch, "images");
  if (!images) return;
  const auto values = [&](napi_value from) {
    held.push_back(from);
    return toFloatArray(env, from, "images").data;
  };
  input.images.rows = toInt32Array(env, property(env, *images, "rows"), "rows").copy();
  input.images.embeddings = values(property(env, *images, "embeddings"));
  for (napi_value layer : elementsOf(env, property(env, *images, "deepstack"))) {
    input.images.deepstack.push_back(values(layer));
  }
}

StepInput readBatch(napi_env env, napi_value batch, bool isRecurrent) {
  const auto integers = [&](napi_value of, const char* name) {
    return toInt32Array(env, property(env, of, name), name).copy();
  };
  StepInput input;
  input.tokens = integers(batch, "tokens");
  input.rowStarts = integers(batch, "rowStarts");
  input.starts = integers(batch, "starts");
  input.blocks = integers(batch, "blocks");
  input.blockStarts = integers(batch, "blockStarts");
  input.logitRows = integers(batch, "logitRows");
  input.stateRows = integers(batch, "stateRows");
  input.adapters = integers(batch, "adapters");
  if (!isRecurrent) return input;
  const napi_value states = property(env, batch, "recurrentStates");
  input.recurrentFrom = integers(states, "from");
  input.recurrentStarts = integers(states, "starts");
  input.recurrentRows = integers(states, "rows");
  input.recurrentSlots = integers(states, "slots");
  return input;
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

/** What JavaScript holds of a view on its way through a tower, on the processor or on a GPU; both null once it was ended. */
struct ViewHandle {
  std::shared_ptr<TowerRun> run;
  std::shared_ptr<cuda::ViewRun> gpuRun;
};

ViewHandle& toViewHandle(napi_env env, napi_value value) {
  void* data;
  check(napi_get_value_external(env, value, &data), "expected a view");
  return *static_cast<ViewHandle*>(data);
}

const ViewHandle& toOpenView(napi_env env, napi_value value) {
  const ViewHandle& view = toViewHandle(env, value);
  if (!view.run && !view.gpuRun) throw ScriptError("native addon: the view was ended");
  return view;
}

/** beginView(handle, program, rgb: Uint8Array): view; `program` is that of src/compute/tower/program.ts */
napi_value beginView(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    const auto args = arguments(env, info, 3);
    const Handle& handle = toAnyHandle(env, args[0]);
    if (!handle.tower && !handle.cudaTower) throw ScriptError("native addon: the model has no vision tower");
    auto view = std::make_unique<ViewHandle>();
    const Tower& tower = handle.tower ? *handle.tower : handle.cudaTower->tower();
    TowerProgram program = readProgram(toRecord(env, args[1], "program"), tower);
    std::vector<uint8_t> rgb = toByteArray(env, args[2], "rgb").copy();
    if (handle.tower) {
      view->run = std::make_shared<TowerRun>(handle.tower, std::move(program), std::move(rgb), *handle.kernels, handle.pool);
    } else {
      view->gpuRun = std::make_shared<cuda::ViewRun>(handle.cudaTower, std::move(program), std::move(rgb));
    }
    napi_value external;
    check(napi_create_external(
              env, view.get(), [](napi_env, void* data, void*) { delete static_cast<ViewHandle*>(data); }, nullptr, &external),
          "cannot make a handle");
    view.release();
    return external;
  });
}

/** runView(handle, view, operation, first, count): Promise<void>; some rows of an operation, which a GPU may not have done yet */
napi_value runView(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    const auto args = arguments(env, info, 5);
    Handle& handle = toHandle(env, args[0]);
    const ViewHandle view = toOpenView(env, args[1]);
    const int operation = toInt(env, args[2]), first = toInt(env, args[3]), count = toInt(env, args[4]);
    return runOffThread(env, handle, "chairlift.runView", {args[0], args[1]}, [view, operation, first, count] {
      if (view.run) view.run->run(operation, first, count);
      else view.gpuRun->run(operation, first, count);
    });
  });
}

/** settleView(handle, view): Promise<void>; once a GPU has done what was asked of it */
napi_value settleView(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    const auto args = arguments(env, info, 2);
    Handle& handle = toHandle(env, args[0]);
    const ViewHandle view = toOpenView(env, args[1]);
    return runOffThread(env, handle, "chairlift.settleView", {args[0], args[1]}, [view] {
      if (view.gpuRun) view.gpuRun->wait();
    });
  });
}

/** readView(handle, view, output, values: Float32Array): Promise<void>; between operations */
napi_value readView(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    const auto args = arguments(env, info, 4);
    Handle& handle = toHandle(env, args[0]);
    const ViewHandle view = toOpenView(env, args[1]);
    const TowerProgram& program = view.run ? view.run->program() : view.gpuRun->program();
    const int output = toInt(env, args[2]);
    const auto values = toFloatArray(env, args[3], "values");
    if (output < 0 || size_t(output) >= program.outputs.size()) throw ScriptError("native addon: no such output");
    const BufferRows& rows = program.outputs[size_t(output)];
    if (values.length != size_t(rows.rows) * size_t(rows.size)) throw ScriptError("native addon: values of another size");
    return runOffThread(env, handle, "chairlift.readView", {args[0], args[1], args[3]}, [view, output, to = values.data] {
      if (view.run) view.run->read(output, to);
      else view.gpuRun->read(output, to);
    });
  });
}

/** endView(view): gives its memory back, or lets its last operation do so. */
napi_value endView(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    ViewHandle& view = toViewHandle(env, arguments(env, info, 1)[0]);
    view.run.reset();
    view.gpuRun.reset();
    return undefinedValue(env);
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
    napi_value result;
    check(napi_get_boolean(env, toCudaModel(env, arguments(env, info, 1)[0]).canSample(), &result), "cannot make a boolean");
    return result;
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
      napi_value nothing;
      check(napi_get_undefined(env, &nothing), "cannot make undefined");
      return nothing;
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
    napi_value result;
    check(napi_get_boolean(env, isDone, &result), "cannot make a boolean");
    return result;
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
    napi_value result;
    check(napi_get_boolean(env, model.prepareNext(input, sampling), &result), "cannot make a boolean");
    return result;
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
    napi_value nothing;
    check(napi_get_undefined(env, &nothing), "cannot make undefined");
    return nothing;
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
    handle.tower.reset();
    handle.cudaTower.reset();
    handle.cudaModel.reset();
    handle.weights.reset();
    handle.device.reset();
    handle.pool.reset();
    return undefinedValue(env);
  });
}

napi_value fromNames(napi_env env, const std::vector<const char*>& names) {
  napi_value list;
  check(napi_create_array(env, &list), "cannot make a list");
  uint32_t index = 0;
  for (const char* name : names) {
    napi_value text;
    check(napi_create_string_utf8(env, name, NAPI_AUTO_LENGTH, &text), "cannot make a name");
    check(napi_set_element(env, list, index++, text), "cannot fill a list");
  }
  return list;
}

/** kernels(): names of the kernel tables this machine runs, slowest first */
napi_value kernels(napi_env env, napi_callback_info) {
  return guarded(env, [&] {
    std::vector<const char*> names;
    for (const KernelTable* table : availableKernels()) names.push_back(table->name);
    return fromNames(env, names);
  });
}

/** instructionSets(): names of those this machine runs, slowest first, with or without kernels in this build */
napi_value instructionSetNames(napi_env env, napi_callback_info) {
  return guarded(env, [&] { return fromNames(env, runnableSets()); });
}

/** kvBlockBytes(kvType, caches): what one block of KV takes */
napi_value kvBlockBytes(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    const auto args = arguments(env, info, 2);
    const KvLayout layout{toKvType(env, args[0]), readCaches(toRecord(env, args[1], "caches"))};
    return fromNumber(env, double(layout.blockBytes()));
  });
}

/** matrixBytes(type, outputs, inputs): what a packed matrix takes */
napi_value matrixBytes(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    const auto args = arguments(env, info, 3);
    return fromNumber(env, double(Matrix::bytesOf(toFormat(env, args[0]), toInt(env, args[1]), toInt(env, args[2]))));
  });
}

/** unpack(type, weights: Uint8Array, outputs, inputs, out: Float32Array): rows packed and read back, for tests */
napi_value unpack(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    const auto args = arguments(env, info, 5);
    probeUnpack(toFormat(env, args[0]), toByteArray(env, args[1], "weights").data, toInt(env, args[2]),
                toInt(env, args[3]), toFloatArray(env, args[4], "out").data);
    return undefinedValue(env);
  });
}

/** multiply(isa, type, weights: Uint8Array, outputs, inputs, x: Float32Array, out: Float32Array): one product, for tests */
napi_value multiply(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    const auto args = arguments(env, info, 7);
    const SourceFormat& format = toFormat(env, args[1]);
    const auto x = toFloatArray(env, args[5], "x"), out = toFloatArray(env, args[6], "out");
    const auto weights = toByteArray(env, args[2], "weights");
    probeMultiply(chooseKernels(toString(env, args[0])), format, weights.data, toInt(env, args[3]),
                  toInt(env, args[4]), x.data, x.length, out.data);
    return undefinedValue(env);
  });
}

/** timeMultiply(isa, type, outputs, inputs, rows, threads, repeats): seconds per product */
napi_value timeMultiply(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    const auto args = arguments(env, info, 7);
    const SourceFormat& format = toFormat(env, args[1]);
    const ProductTiming timing =
        probeTime(chooseKernels(toString(env, args[0])), format, toInt(env, args[2]), toInt(env, args[3]),
                  toInt(env, args[4]), toInt(env, args[5]), toInt(env, args[6]));
    napi_value result;
    check(napi_create_object(env, &result), "cannot make an object");
    check(napi_set_named_property(env, result, "seconds", fromNumber(env, timing.seconds)), "seconds");
    check(napi_set_named_property(env, result, "bytes", fromNumber(env, double(timing.bytes))), "bytes");
    return result;
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

/** readBandwidth(threads, megabytes): bytes per second */
napi_value readBandwidth(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    const auto args = arguments(env, info, 2);
    return fromNumber(env, probeReadBandwidth(toInt(env, args[0]), size_t(toInt(env, args[1])) << 20));
  });
}

}  // namespace

}  // namespace chairlift

NAPI_MODULE_INIT() {
  using namespace chairlift;
  const struct {
    const char* name;
    napi_callback call;
  } functions[] = {
      {"create", create},         {"addMatrix", addMatrix},     {"packRows", packRows},
      {"assemble", assemble},     {"step", step},               {"releaseBlocks", releaseBlocks},
      {"contentBytes", contentBytes},
      {"readBlock", readBlock},   {"writeBlock", writeBlock},   {"readState", readState},       {"writeState", writeState},
      {"destroy", destroy},       {"kernels", kernels},         {"matrixBytes", matrixBytes},
      {"instructionSets", instructionSetNames},
      {"kvBlockBytes", kvBlockBytes}, {"useThreads", useThreads},
      {"unpack", unpack},         {"multiply", multiply},
      {"timeMultiply", timeMultiply}, {"readBandwidth", readBandwidth},
      {"createSampler", createSampler}, {"sampleRows", sampleRows},
      {"gpus", gpus},             {"createOnGpu", createOnGpu},  {"addKernels", addKernels},   {"fitBlocks", fitBlocks},
      {"profileStep", profileStep},
      {"gpuFreeBytes", gpuFreeBytes}, {"moveBlocks", moveBlocks},
      {"timeGpuCopy", timeGpuCopy},
      {"canSample", canSample},   {"stepAndSample", stepAndSample}, {"isStepDone", isStepDone}, {"prepareStep", prepareStep},
      {"startPrepared", startPrepared}, {"readLogits", readLogits},
      {"probeSampling", probeSampling},
      {"beginView", beginView},   {"runView", runView},         {"settleView", settleView},   {"readView", readView},         {"endView", endView},
      {"multiplyOnGpu", multiplyOnGpu}, {"timeMultiplyOnGpu", timeMultiplyOnGpu},
  };
  for (const auto& function : functions) {
    napi_value value;
    if (napi_create_function(env, function.name, NAPI_AUTO_LENGTH, function.call, nullptr, &value) != napi_ok ||
        napi_set_named_property(env, exports, function.name, value) != napi_ok) {
      return nullptr;
    }
  }
  return exports;
}
