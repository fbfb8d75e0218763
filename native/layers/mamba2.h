// A state space (Mamba 2): see Mamba2Spec in src/model/spec.ts.
#pragma once

#include "layers/causal-conv.h"
#include "model/linear.h"
#include "model/norm.h"
#include "model/workspace.h"

namespace chairlift {

struct Mamba2 {
  // Which of the model's recurrent states is its own.
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
  // Where things lie in a projected row; values, writes and reads come first, side by side.
  size_t gateAt() const { return layout().channelStride(); }
  size_t stepsAt() const { return gateAt() + paddedLength(valueRows()); }
  // Beside the steps: what each head keeps.
  size_t keptAt() const { return stepsAt() + paddedLength(heads); }
  size_t projectedStride() const { return keptAt() + paddedLength(heads); }
};

/** Writes an output row for each row of `input`. */
void runMamba2(const Mamba2& space, const InputRows& input, Workspace& work, float* out);

}  // namespace chairlift
