// Attention of a layer: what it projects, how heads are placed, and the pass over keys and values that are stored.
#pragma once

#include <optional>
#include <vector>

#include "model/linear.h"
#include "model/norm.h"
#include "model/workspace.h"

namespace chairlift {

/** Over each head, with the same weights for all or with weights of its own; or over all of them together. */
struct HeadNorm {
  enum class Over { Head, Each, All };

  Norm norm;
  Over over = Over::Head;
};

/** Queries grow with their position: `1 + weight * log(1 + floor((position + shift) / length))`. */
struct QueryGrowth {
  double weight, length, shift;
};

struct Attention {
  int headCount = 0;
  int kvHeadCount = 0;
  int headSize = 0;
  // Which of the KV caches its keys and values lie in.
  int cache = 0;
  // Whether it stores its own, and whether values have a matrix of theirs or are what keys were at first.
  bool stores = false;
  bool hasValues = false;
  bool hasGate = false;
  // Queries and, where it has them, keys, values and the gate of what is attended: see `keysAt` and what follows.
  Linear projection;
  Linear output;
  std::optional<HeadNorm> queryNorm, keyNorm, valueNorm;
  bool normsAfterRope = false;
  std::optional<int> rope;
  // Later tokens of the text are seen, too.
  bool bidirectional = false;
  // 0: all tokens of a side that is seen; else so many less one.
  int window = 0;
  // 0: none; tokens see their own chunk of so many alone.
  int chunk = 0;
  float scale = 1;
  // 0: none.
  float softcap = 0;
  // Empty, or one for each head.
  std::vector<float> sinks;
  std::optional<QueryGrowth> growth;

  int querySize() const { return headCount * headSize; }
  int kvSize() const { return kvHeadCount * headSize; }
  // Where things lie in a projected row; queries come first.
  size_t keysAt() const { return paddedLength(querySize()); }
  size_t valuesAt() const { return keysAt() + paddedLength(kvSize()); }
  size_t gateAt() const { return stores ? valuesAt() + paddedLength(kvSize()) : keysAt(); }
  size_t projectedStride() const { return gateAt() + (hasGate ? paddedLength(querySize()) : 0); }
};

/** Writes an output row for each row of `input`. */
void runAttention(const Attention& attention, const InputRows& input, const std::vector<Rope>& ropes, Workspace& work,
                  float* out);

}  // namespace chairlift
