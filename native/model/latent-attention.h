// Attention through a latent: see LatentAttentionSpec in src/model/spec.ts.
#pragma once

#include <optional>
#include <vector>

#include "model/linear.h"
#include "model/norm.h"
#include "model/workspace.h"

namespace chairlift {

struct LatentAttention {
  int headCount = 0;
  // Which of the K/V caches the latent and the rotated values behind it lie in, as one key.
  int cache = 0;
  int rank = 0;
  int contentSize = 0;
  int rotatedSize = 0;
  int valueSize = 0;
  // Of what queries are made of; 0 where that is the input itself.
  int queryInputSize = 0;
  // The latent, the rotated values of the key and, where it has one, the input of queries: see `queryInputAt`.
  Linear projection;
  Norm latentNorm;
  std::optional<Norm> queryInputNorm;
  // Of all heads the content, then of all heads what is rotated.
  Linear query;
  // A member for each head.
  Linear toLatent, toValues;
  Linear output;
  int rope = 0;
  float scale = 1;

  int keySize() const { return rank + rotatedSize; }
  size_t queryInputAt() const { return paddedLength(keySize()); }
  size_t projectedStride() const { return queryInputAt() + paddedLength(queryInputSize); }
  size_t queryRotatedAt() const { return size_t(headCount) * size_t(contentSize); }
  /** In contents of a head: each can be told as a row of its own. */
  size_t queryContents() const {
    return size_t(headCount) + size_t((headCount * rotatedSize + contentSize - 1) / contentSize);
  }
};

/** Writes an output row for each row of `input`. */
void runLatentAttention(const LatentAttention& attention, const InputRows& input, const std::vector<Rope>& ropes,
                        Workspace& work, float* out);

}  // namespace chairlift
