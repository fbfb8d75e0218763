// See model-handle.h.

#include "addon/model-handle.h"

namespace chairlift {

namespace {

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

}  // namespace

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

KvType toKvType(napi_env env, napi_value value) {
  const std::string name = toString(env, value);
  return name == "q4" ? KvType::Q4 : name == "q8" ? KvType::Q8 : KvType::F16;
}

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

}  // namespace chairlift
