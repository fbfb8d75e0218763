// A convolution between two gates: see ShortConvSpec in src/model/spec.ts.
#pragma once

#include "layers/causal-conv.h"
#include "model/linear.h"
#include "model/workspace.h"

namespace chairlift {

struct ShortConv {
  // Which of the model's recurrent states is its own.
  int state = 0;
  int size = 0;
  // The gate before, the value, the gate after.
  Linear projection;
  Linear output;
  int taps = 1;
  Convolution convolution;

  StateLayout layout() const { return {size, taps}; }
  size_t valueAt() const { return paddedLength(size); }
  size_t afterAt() const { return 2 * paddedLength(size); }
  size_t projectedStride() const { return 3 * paddedLength(size); }
};

/** Writes an output row for each row of `input`. */
void runShortConv(const ShortConv& body, const InputRows& input, Workspace& work, float* out);

}  // namespace chairlift
