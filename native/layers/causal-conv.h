// Causal convolution of a body's channels over the tokens of each sequence.
#pragma once

#include <vector>

#include "model/record.h"
#include "model/recurrent-states.h"
#include "model/workspace.h"

namespace chairlift {

struct Convolution {
  // A padded row for each tap, the oldest first.
  std::vector<float> weights;
  // Empty, or padded.
  std::vector<float> bias;
  bool activates = false;
};

Convolution readConvolution(const Record& from, const StateLayout& layout, bool activates);

/** Convolves rows of channels into `to` and updates the recurrent state. */
void convolveRows(const Convolution& convolution, const StateLayout& layout, int state, const float* channels,
                  size_t stride, float* to, size_t toStride, Workspace& work);

}  // namespace chairlift
