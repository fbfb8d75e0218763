// Attention over keys and values in the KV cache: see AttentionSpec in src/model/layers/attention.ts.
#pragma once

#include <optional>
#include <vector>

#include "model/body.h"

namespace chairlift {

/** Over each head, with shared (Head) or its own weights (Each), or over all heads together (All). */
struct HeadNorm {
  enum class Over { Head, Each, All };

  Norm norm;
  Over over = Over::Head;
};

/** Queries are scaled by `1 + weight * log(1 + floor((position + shift) / length))`. */
struct QueryGrowth {
  double weight, length, shift;
};

struct Attention final : Body {
  int headCount = 0;
  int kvHeadCount = 0;
  int headSize = 0;
  int cache = 0;
  // Whether it stores keys and values; without `hasValues` the values are the keys before norm and rotation.
  bool stores = false;
  bool hasValues = false;
  bool hasGate = false;
  // Queries, keys, values and the output gate, those that it has.
  Linear projection;
  // Of it, keys and values alone.
  Linear stored;
  Linear output;
  std::optional<HeadNorm> queryNorm, keyNorm, valueNorm;
  bool normsAfterRope = false;
  std::optional<int> rope;
  bool bidirectional = false;
  // Tokens of an image see all of it.
  bool imagesBothWays = false;
  // Tokens that are seen on a side, the row's own included; 0: all.
  int window = 0;
  // The first position is not seen by others. Rows come one a sequence.
  bool skipsFirst = false;
  // Tokens see their own chunk of this many alone; 0: all chunks.
  int chunk = 0;
  float scale = 1;
  // 0: none.
  float softcap = 0;
  // Empty, or one for each head.
  std::vector<float> sinks;
  std::optional<QueryGrowth> growth;

  int querySize() const { return headCount * headSize; }
  int kvSize() const { return kvHeadCount * headSize; }
  // Offsets in a projected row; queries come first.
  size_t keysAt() const { return paddedLength(querySize()); }
  size_t valuesAt() const { return keysAt() + paddedLength(kvSize()); }
  size_t gateAt() const { return stores ? valuesAt() + paddedLength(kvSize()) : keysAt(); }
  size_t projectedStride() const { return gateAt() + (hasGate ? paddedLength(querySize()) : 0); }

  void run(const InputRows& input, Workspace& work, float* out) const override;
  void store(const InputRows& input, Workspace& work) const override;
  const Linear* inputLinear() const override { return &projection; }
};

}  // namespace chairlift
