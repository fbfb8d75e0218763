// The Node-API surface: builds models from JavaScript and runs their steps off the JavaScript thread.
// src/compute/cpu/binding.ts is the only caller; it validates, this copies to plain structs.

#include "addon/addon-sampler.h"
#include "addon/functions.h"

NAPI_MODULE_INIT() {
  using namespace chairlift;
  const std::vector<Function> sampler = {{"sampleRows", sampleRows}};
  for (const auto& room : {modelFunctions(), gpuFunctions(), viewFunctions(), probeFunctions(), sampler}) {
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
