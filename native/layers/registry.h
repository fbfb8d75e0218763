// Finds the reader of a kind of layer.
#pragma once

#include <memory>

#include "model/body.h"
#include "model/reader.h"
#include "model/record.h"

namespace chairlift {

using ReadBody = std::unique_ptr<Body>(const Record& from, Reader& reader);

/** By its `kind`. */
ReadBody readBody;

}  // namespace chairlift
