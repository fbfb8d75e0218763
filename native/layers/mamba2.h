// A state space (Mamba 2): see Mamba2Spec in src/model/layers/mamba2.ts.
#pragma once

#include <vector>

#include "layers/causal-conv.h"
#include "model/body.h"

namespace chairlift {

struct Mamba2 final : Body {
  // Index of its recurrent state.
  int state = 0;
  int heads = 0;
  int headSize = 0;
  int stateSize = 0;
  int groups = 1;
  // Values, writes and reads; the gate; a step for each head.
  Linear projection;
  Linear output;
  int taps = 1;
  Convolution convolution;
  std::vector<float> stepBias, rates, skip;
  Norm norm;

  int valueRows() const { return heads * headSize; }
  int groupRows() const { return groups * stateSize; }
  StateLayout layout() const { return {valueRows() + 2 * groupRows(), taps, heads, stateSize, headSize}; }
  // Offsets in a projected row; values, writes and reads come first.
  size_t gateAt() const { return layout().channelStride(); }
  size_t stepsAt() const { return gateAt() + paddedLength(valueRows()); }
  // The decay of each head.
  size_t keptAt() const { return stepsAt() + paddedLength(heads); }
  size_t projectedStride() const { return keptAt() + paddedLength(heads); }

  void run(const InputRows& input, Workspace& work, float* out) const override;
  const Linear* inputLinear() const override { return &projection; }
};

}  // namespace chairlift
