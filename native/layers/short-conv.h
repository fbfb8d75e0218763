// A convolution between two gates: see ShortConvSpec in src/model/layers/short-conv.ts.
#pragma once

#include "layers/causal-conv.h"
#include "model/body.h"

namespace chairlift {

struct ShortConv final : Body {
  // Index of its recurrent state.
  int state = 0;
  int size = 0;
  // The gate before (B of LFM 2), the value (x), the gate after (C).
  Linear projection;
  Linear output;
  int taps = 1;
  Convolution convolution;

  StateLayout layout() const { return {size, taps}; }
  size_t valueAt() const { return paddedLength(size); }
  size_t afterAt() const { return 2 * paddedLength(size); }
  size_t projectedStride() const { return 3 * paddedLength(size); }

  void run(const InputRows& input, Workspace& work, float* out) const override;
  const Linear* inputLinear() const override { return &projection; }
};

}  // namespace chairlift
