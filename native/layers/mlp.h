// The feed-forward of a layer: `down(activation(gate) * up)`, or `down(activation(up))` without a gate.
#pragma once

#include <optional>
#include <vector>

#include "model/body.h"
#include "model/reader.h"
#include "model/record.h"

namespace chairlift {

/** One, or several that differ in weights alone: then its matrices have a member for each. */
struct Mlp final : Body {
  int size = 0;
  Curve curve;
  bool hasGate = false;
  bool gated = false;
  // Gates are lowered by their mean plus this many standard deviations, but not below 0.
  std::optional<float> gateCutoff;
  // The gate, up, and the shared expert gate; the first and the last if present.
  Linear projection;
  Linear down;

  size_t upAt() const { return hasGate ? paddedLength(size) : 0; }
  size_t shareAt() const { return upAt() + paddedLength(size); }
  size_t projectedStride() const { return shareAt() + (gated ? groupInputs : 0); }

  void run(const InputRows& input, Workspace& work, float* out) const override;
  const Linear* inputLinear() const override { return &projection; }
};

Mlp readMlp(const Record& from, const Reader& reader, int members);

/** Both maps, with room for projected rows, whose rows of the step are `owners`; null: all in order. Every row is in one run, in order. */
void multiplyMlp(const Mlp& mlp, const InputRows& input, const std::vector<RowRun>& runs, float* projected,
                 const int32_t* owners, Workspace& work, float* out, size_t outStride);

}  // namespace chairlift
