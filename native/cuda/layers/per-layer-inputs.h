// See per-layer-inputs.cc.
#pragma once

#include "cuda/work.h"
#include "layers/per-layer-inputs.h"

namespace chairlift {
namespace cuda {

/** Reads the residual stream as it enters the first layer. */
void makePerLayerInputs(const PerLayerInputs& inputs, Work& work);

}  // namespace cuda
}  // namespace chairlift
