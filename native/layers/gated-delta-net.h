// The gated delta net: see GatedDeltaNetSpec in src/model/layers/gated-delta-net.ts.
#pragma once

#include <vector>

#include "layers/causal-conv.h"
#include "model/body.h"

namespace chairlift {

struct GatedDeltaNet final : Body {
  // Index of its recurrent state.
  int state = 0;
  int keyHeads = 0;
  int keySize = 0;
  int valueHeads = 0;
  int valueSize = 0;
  // Value heads that share a key head are `keyHeads` apart, not neighbours.
  bool strided = false;
  // Queries, keys and values; the gate; a share and a decay for each value head.
  Linear projection;
  Linear output;
  int taps = 1;
  Convolution convolution;
  std::vector<float> decayBias, rates;
  Norm norm;

  int keyRows() const { return keyHeads * keySize; }
  int valueRows() const { return valueHeads * valueSize; }
  StateLayout layout() const { return {2 * keyRows() + valueRows(), taps, valueHeads, keySize, valueSize}; }
  // Offsets in a projected row; queries, keys and values come first.
  size_t gateAt() const { return layout().channelStride(); }
  size_t sharesAt() const { return gateAt() + paddedLength(valueRows()); }
  size_t decaysAt() const { return sharesAt() + paddedLength(valueHeads); }
  size_t projectedStride() const { return decaysAt() + paddedLength(valueHeads); }
  int keyHeadOf(int head) const { return strided ? head % keyHeads : head / (valueHeads / keyHeads); }

  void run(const InputRows& input, Workspace& work, float* out) const override;
  const Linear* inputLinear() const override { return &projection; }
};

}  // namespace chairlift
