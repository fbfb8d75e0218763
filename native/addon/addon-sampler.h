// The sampler's part of the Node-API surface.
#pragma once

#include "addon/node-api.h"

#include <memory>
#include <vector>

#include "sampling/sampler.h"

namespace chairlift {

/** A JavaScript handle of a sampler that works on a pool's threads. */
napi_value makeSampler(napi_env env, std::shared_ptr<ThreadPool> pool);
/** The rows of a job, whose arrays they read: it must live as long as they are used. `stride`: places for alternatives of a row. */
std::vector<SamplingRow> readSamplingRows(napi_env env, napi_value job, int vocabSize, int stride);
napi_value sampleRows(napi_env env, napi_callback_info info);

}  // namespace chairlift
