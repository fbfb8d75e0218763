// MLA: see MlaSpec in src/model/spec.ts.
#pragma once

#include <optional>
#include <vector>

#include "model/linear.h"
#include "model/norm.h"
#include "model/workspace.h"

namespace chairlift {

struct Mla {
  int headCount = 0;
  // Which of the KV caches the latent and the rotated values behind it lie in, as one key.
  int cache = 0;
  int kvLoraRank = 0;
  int qkNopeHeadDim = 0;
  int qkRopeHeadDim = 0;
  int vHeadDim = 0;
  // Of what queries are made of; 0 where that is the input itself.
  int queryInputSize = 0;
  // The latent, the rotated values of the key and, where it has one, the input of queries: see `queryInputAt`.
  Linear projection;
  Norm kvNorm;
  std::optional<Norm> queryInputNorm;
  // Of all heads the content, then of all heads what is rotated.
  Linear query;
  // A member for each head.
  Linear keyUp, valueUp;
  Linear output;
  int rope = 0;
  float scale = 1;

  int keySize() const { return kvLoraRank + qkRopeHeadDim; }
  size_t queryInputAt() const { return paddedLength(keySize()); }
  size_t projectedStride() const { return queryInputAt() + paddedLength(queryInputSize); }
  size_t queryRotatedAt() const { return size_t(headCount) * size_t(qkNopeHeadDim); }
  /** In contents of a head: each can be told as a row of its own. */
  size_t queryContents() const {
    return size_t(headCount) + size_t((headCount * qkRopeHeadDim + qkNopeHeadDim - 1) / qkNopeHeadDim);
  }
};

/** Writes an output row for each row of `input`. */
void runMla(const Mla& attention, const InputRows& input, const std::vector<Rope>& ropes,
                        Workspace& work, float* out);

}  // namespace chairlift
