// What a step computes, as JavaScript gives it.
#pragma once

#include <vector>

#include "addon/napi-values.h"
#include "model/model.h"

namespace chairlift {

/** Of what a batch may carry for images; the values stay where they are, and are added to `held`. */
void readImages(napi_env env, napi_value batch, StepInput& input, std::vector<napi_value>& held);
/** All the rest of it. */
StepInput readBatch(napi_env env, napi_value batch, bool isRecurrent);

}  // namespace chairlift
