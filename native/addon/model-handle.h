// What JavaScript holds of a model, and tasks that run off its thread meanwhile.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "addon/napi-values.h"
#include "cuda/driver-device.h"
#include "cuda/model.h"
#include "cuda/tower/view-run.h"
#include "kernels/dispatch.h"
#include "model/drafts.h"
#include "tower/tower-run.h"

namespace chairlift {

/** What JavaScript holds: its matrices are filled first, then the model is assembled from them. */
struct Handle {
  std::shared_ptr<ThreadPool> pool;
  const KernelTable* kernels = nullptr;
  std::vector<std::shared_ptr<Matrix>> matrices;
  std::shared_ptr<Model> model;
  // Where it has an MTP head.
  std::shared_ptr<Drafts> drafts;
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

/** Of any model that is not closed. */
Handle& toAnyHandle(napi_env env, napi_value value);
/** Of one that nothing is computing. */
Handle& toHandle(napi_env env, napi_value value);
cuda::CudaModel& toCudaModel(napi_env env, napi_value value);
Model& toModel(napi_env env, napi_value value);

KvType toKvType(napi_env env, napi_value value);
const SourceFormat& toFormat(napi_env env, napi_value value);
/** An empty name takes the fastest. */
const KernelTable& chooseKernels(const std::string& name);

/** `run` may use the memory of the JavaScript values in `held`, the handle among them, until the promise settles. */
napi_value runOffThread(napi_env env, Handle& handle, const char* name, const std::vector<napi_value>& held,
                        std::function<void()> run);

}  // namespace chairlift
