// What the addon gives to JavaScript, room by room.
#pragma once

#include <vector>

#include "addon/node-api.h"

namespace chairlift {

struct Function {
  const char* name;
  napi_callback call;
};

const std::vector<Function>& modelFunctions();
const std::vector<Function>& draftFunctions();
const std::vector<Function>& gpuFunctions();
const std::vector<Function>& viewFunctions();
const std::vector<Function>& probeFunctions();
const std::vector<Function>& timelineFunctions();

}  // namespace chairlift
