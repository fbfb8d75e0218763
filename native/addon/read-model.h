// Reads the description of a model that src/compute/cpu/native-model.ts makes: nested plain objects, which name matrices by
// number. What does not fit together is refused, for kernels trust every size.
#pragma once

#include "addon/node-api.h"

#include "model/model.h"

namespace chairlift {

/** All but the type of KV. */
ModelParts readModel(napi_env env, napi_value model, const std::vector<std::shared_ptr<Matrix>>& matrices);

std::vector<KvCache> readCaches(napi_env env, napi_value caches);

}  // namespace chairlift
