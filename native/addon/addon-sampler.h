// The sampler's part of the Node-API surface.
#pragma once

#include "addon/node-api.h"

#include <memory>

#include "system/thread-pool.h"

namespace chairlift {

/** A JavaScript handle of a sampler that works on a pool's threads. */
napi_value makeSampler(napi_env env, std::shared_ptr<ThreadPool> pool);
napi_value sampleRows(napi_env env, napi_callback_info info);

}  // namespace chairlift
