// See causal-conv.cc.
#pragma once

#include "cuda/work.h"
#include "layers/causal-conv.h"

namespace chairlift {
namespace cuda {

/** As the processor's: convolves rows of channels into `to` and updates the recurrent state. */
void convolveRows(const Convolution& convolution, const StateLayout& layout, int state, const float* channels, size_t stride,
                  float* to, size_t toStride, Work& work);

}  // namespace cuda
}  // namespace chairlift
