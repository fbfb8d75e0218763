// Views of images on their way through a vision tower.

#include "addon/functions.h"
#include "addon/model-handle.h"
#include "addon/to-record.h"
#include "model/reader.h"

namespace chairlift {

namespace {

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
    return toExternal(env, std::move(view));
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

}  // namespace

const std::vector<Function>& viewFunctions() {
  static const std::vector<Function> all = {
      {"beginView", beginView},
      {"runView", runView},
      {"settleView", settleView},
      {"readView", readView},
      {"endView", endView},
  };
  return all;
}

}  // namespace chairlift
