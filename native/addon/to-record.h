// Copies plain JavaScript data.
#pragma once

#include "addon/napi-values.h"
#include "model/record.h"

namespace chairlift {

/** Of flags, numbers, texts, Float32Arrays, Int32Arrays, lists and objects of these; fields that are undefined are left out. Errors
 * name the field, which is `name` at first. */
Record toRecord(napi_env env, napi_value value, const char* name);

}  // namespace chairlift
