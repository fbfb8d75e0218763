// The sampler's part of the Node-API surface.
#pragma once

#include <node_api.h>

namespace chairlift {

napi_value createSampler(napi_env env, napi_callback_info info);
napi_value sampleRows(napi_env env, napi_callback_info info);

}  // namespace chairlift
