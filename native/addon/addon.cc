// The Node-API surface: builds models from JavaScript and runs their steps off the JavaScript thread.
// src/compute/cpu/binding.ts declares nearly all of it; who calls it validates, this copies to plain structs.

#include "addon/addon-sampler.h"
#include "addon/functions.h"
#include "addon/napi-values.h"
#include "kernels/dispatch.h"
#include "system/thread-priority.h"

namespace {

/** lowerThreadPriority(): whether the calling thread leaves the processor to others from now on */
napi_value lowerPriority(napi_env env, napi_callback_info) {
  return chairlift::guarded(env, [&] { return chairlift::fromBoolean(env, chairlift::lowerThreadPriority()); });
}

}  // namespace

NAPI_MODULE_INIT() {
  using namespace chairlift;
  // A checkout's build has those of the machine that compiled it.
  if (availableKernels().empty()) {
    napi_throw_error(env, nullptr, "it was built for another processor");
    return nullptr;
  }
  const std::vector<Function> others = {{"sampleRows", sampleRows}, {"lowerThreadPriority", lowerPriority}};
  for (const auto& room :
       {modelFunctions(), draftFunctions(), gpuFunctions(), viewFunctions(), probeFunctions(), timelineFunctions(), others}) {
    for (const auto& [name, call] : room) {
      napi_value value;
      if (napi_create_function(env, name, NAPI_AUTO_LENGTH, call, nullptr, &value) != napi_ok ||
          napi_set_named_property(env, exports, name, value) != napi_ok) {
        return nullptr;
      }
    }
  }
  return exports;
}
