// MLA: see MlaSpec in src/model/layers/mla.ts.
#pragma once

#include <optional>

#include "model/body.h"

namespace chairlift {

struct Mla final : Body {
  int headCount = 0;
  // The KV cache that holds the compressed KV and the rotated key, as one key.
  int cache = 0;
  int kvLoraRank = 0;
  int qkNopeHeadDim = 0;
  int qkRopeHeadDim = 0;
  int vHeadDim = 0;
  // 0: queries are made of the input itself.
  int queryInputSize = 0;
  // The compressed KV, the rotated key and the compressed queries, if any.
  Linear projection;
  // Of it, what is stored.
  Linear stored;
  Norm kvNorm;
  std::optional<Norm> queryInputNorm;
  // The unrotated values of all heads, then the rotated ones.
  Linear query;
  // Absorbed W_UK and W_UV, a member for each head.
  Linear keyUp, valueUp;
  Linear output;
  int rope = 0;
  float scale = 1;
  // The first position is not seen by others. Rows come one a sequence.
  bool skipsFirst = false;

  int keySize() const { return kvLoraRank + qkRopeHeadDim; }
  size_t queryInputAt() const { return paddedLength(keySize()); }
  size_t projectedStride() const { return queryInputAt() + paddedLength(queryInputSize); }
  size_t queryRotatedAt() const { return size_t(headCount) * size_t(qkNopeHeadDim); }
  /** A row of queries in multiples of `qkNopeHeadDim`, so that each head is addressed as a row of its own. */
  size_t queryContents() const {
    return size_t(headCount) + size_t((headCount * qkRopeHeadDim + qkNopeHeadDim - 1) / qkNopeHeadDim);
  }

  void run(const InputRows& input, Workspace& work, float* out) const override;
  void store(const InputRows& input, Workspace& work) const override;
  const Linear* inputLinear() const override { return &projection; }
};

}  // namespace chairlift
