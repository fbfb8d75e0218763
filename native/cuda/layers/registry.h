// The kinds of layers on the device. Each launches the kernels that compute what its `run` computes on the processor.
#pragma once

#include "cuda/work.h"
#include "model/body.h"

namespace chairlift {
namespace cuda {

/** Writes an output row for each row of `input`. */
void launchBody(const Body& body, const Input& input, Work& work, float* out);

}  // namespace cuda
}  // namespace chairlift
