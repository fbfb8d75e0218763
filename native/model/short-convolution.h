// A convolution between two gates: see ShortConvolutionSpec in src/model/spec.ts.
#pragma once

#include "model/convolution.h"
#include "model/linear.h"
#include "model/workspace.h"

namespace chairlift {

struct ShortConvolution {
  // Which of the model's memories is its own.
  int memory = 0;
  int size = 0;
  // The gate before, the value, the gate after.
  Linear projection;
  Linear output;
  int taps = 1;
  Convolution convolution;

  MemoryLayout layout() const { return {size, taps}; }
  size_t valueAt() const { return paddedLength(size); }
  size_t afterAt() const { return 2 * paddedLength(size); }
  size_t projectedStride() const { return 3 * paddedLength(size); }
};

/** Writes an output row for each row of `input`. */
void runShortConvolution(const ShortConvolution& body, const InputRows& input, Workspace& work, float* out);

}  // namespace chairlift
