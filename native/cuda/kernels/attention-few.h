// Attention of a few rows, as in decoding: a block has up to eight queries of one KV head over segments of 512 tokens, and reads
// each key and value once for all of them. Scores of a segment's blocks are computed side by side. Here is what heads of all sizes
// share, and large heads, of which only values are copied to shared memory. Include after attention.h.
#pragma once

namespace {

constexpr int fewWarps = 4;

/** Shared memory of a piece; `stride` is the number of queries, padded. */
struct FewShared {
  int stride;
  // [value][query], and scores, then weights, [token][query].
  float* queries;
  float* weights;
  // [block][query]: the largest score, what sums before the block are multiplied by, and the sum of the block's weights.
  float* maxima;
  float* decays;
  float* added;
  // Joined states and factors of queries.
  SoftmaxState* joined;
  JoinFactors* factors;
  Seen* seen;
  // Of attention-staged.h: where outputs are, what they are multiplied by at the end, and the blocks of a segment.
  int64_t* outputs;
  float* inverses;
  int32_t* table;
  // Blocks of keys or values.
  uint8_t* stages;
  int stageCount = 0;

  CHAIRLIFT_METHOD FewShared(int itsStride, int keyRow) {
    stride = itsStride;
    queries = (float*)sharedMemory();
    weights = queries + keyRow * stride;
    maxima = weights + tokensOfSegment * stride;
    decays = maxima + blocksOfSegment * stride;
    added = decays + blocksOfSegment * stride;
    joined = (SoftmaxState*)(added + blocksOfSegment * stride);
    factors = (JoinFactors*)(joined + fewQueries);
    seen = (Seen*)(factors + fewQueries);
    outputs = (int64_t*)(seen + fewQueries);
    inverses = (float*)(outputs + fewQueries);
    table = (int32_t*)(inverses + fewQueries);
    stages = (uint8_t*)(table + blocksOfSegment);
  }
};

/** Numbers of neighbouring queries. */
template <int count>
struct QueryFloats {
  float of[count];

  CHAIRLIFT_METHOD void load(const float* from) {
    if constexpr (count % 4 == 0) {
#pragma unroll
      for (int i = 0; i < count; i += 4) {
        const Floats4 four = *(const Floats4*)(from + i);
        of[i] = four.x, of[i + 1] = four.y, of[i + 2] = four.z, of[i + 3] = four.w;
      }
    } else if constexpr (count == 2) {
      const Floats2 two = *(const Floats2*)from;
      of[0] = two.x, of[1] = two.y;
    } else {
      of[0] = from[0];
    }
  }
  CHAIRLIFT_METHOD void store(float* to) const {
    if constexpr (count % 4 == 0) {
#pragma unroll
      for (int i = 0; i < count; i += 4) *(Floats4*)(to + i) = {of[i], of[i + 1], of[i + 2], of[i + 3]};
    } else if constexpr (count == 2) {
      *(Floats2*)to = {of[0], of[1]};
    } else {
      to[0] = of[0];
    }
  }
};

template <int count>
struct Count {
  static constexpr int value = count;
};

/** Blocks of some segments that a piece reads: `first` … `end` - 1. */
struct BlockRange {
  int first, end;
};

CHAIRLIFT_DEVICE BlockRange blocksSeen(Seen seen, int firstSegment, int endSegment) {
  const int first = seen.first / tokensOfBlock, end = seen.last / tokensOfBlock + 1;
  return {first > firstSegment * blocksOfSegment ? first : firstSegment * blocksOfSegment,
          end < endSegment * blocksOfSegment ? end : endSegment * blocksOfSegment};
}

/** Adds the products of `count` queries and two tokens: keys are columns of tokens. */
template <int kvType, int count>
CHAIRLIFT_DEVICE void scoreColumns(const float* queries, int stride, const uint8_t* keys, int size, float (&sums)[count][2]) {
  constexpr int ahead = 16, column = tokensOfBlock * HeadLayout<kvType>::element;
  uint32_t next[ahead], own[ahead];
#pragma unroll
  for (int i = 0; i < ahead; i++) next[i] = loadPair<kvType>(keys + (i < size ? i : size - 1) * column);
  for (int d = 0; d < size; d += ahead) {
#pragma unroll
    for (int i = 0; i < ahead; i++) own[i] = next[i];
    if (d + ahead < size) {
#pragma unroll
      for (int i = 0; i < ahead; i++) {
        const int at = d + ahead + i;
        next[i] = loadPair<kvType>(keys + (at < size ? at : size - 1) * column);
      }
    }
#pragma unroll
    for (int i = 0; i < ahead; i++) {
      if (d + i >= size) break;
      const float first = kvOf<kvType>(own[i], 0), second = kvOf<kvType>(own[i], 1);
      const float* const values = queries + (d + i) * stride;
      float query[4];
      if (count == 4) {
        const Floats4 four = *(const Floats4*)values;
        query[0] = four.x, query[1] = four.y, query[2] = four.z, query[3] = four.w;
      } else {
        query[0] = values[0];
      }
#pragma unroll
      for (int q = 0; q < count; q++) {
        sums[q][0] = fusedMultiplyAdd(query[q], first, sums[q][0]);
        sums[q][1] = fusedMultiplyAdd(query[q], second, sums[q][1]);
      }
    }
  }
}

/** Scores of queries from `firstQuery` on: a warp has two blocks at a time, a lane two tokens. */
template <int kvType, int count>
CHAIRLIFT_DEVICE void scoreSegment(const AttentionArgs& args, const HeadLayout<kvType>& layout, const FewShared& shared,
                                   const uint8_t* base, const int32_t* table, BlockRange range, int firstQuery) {
  const int warp = threadIndex() / 32, lane = threadIndex() % 32, token = lane % 16 * 2;
  for (int pair = warp; range.first + 2 * pair < range.end; pair += fewWarps) {
    const int index = 2 * pair + lane / 16;
    // The second of a pair may be missing.
    const bool exists = range.first + index < range.end;
    const int b = exists ? range.first + index : range.first;
    const uint8_t* const block = base + int64_t(table[b]) * args.blockStride;
    float sums[count][2] = {};
    scoreColumns<kvType, count>(shared.queries + firstQuery, shared.stride, block + token * layout.element, layout.size, sums);
    const float* const scales = layout.keyScales(block) + token;
#pragma unroll
    for (int q = 0; q < count; q++) {
      const Seen seen = shared.seen[firstQuery + q];
      float best = leastScore;
#pragma unroll
      for (int e = 0; e < 2; e++) {
        const int position = b * tokensOfBlock + token + e;
        const bool isSeen = position >= seen.first && position <= seen.last;
        const float score = isSeen ? scoreOf<kvType>(args, sums[q][e], scales + e) : leastScore;
        best = score > best ? score : best;
        if (exists) shared.weights[(index * tokensOfBlock + token + e) * shared.stride + firstQuery + q] = score;
      }
      for (int half = 8; half > 0; half /= 2) {
        const float other = shuffleXor(best, half);
        best = other > best ? other : best;
      }
      if (exists && lane % 16 == 0) shared.maxima[index * shared.stride + firstQuery + q] = best;
    }
  }
}

/** The same where keys are rows: their products are summed in 16 lanes, of which a thread has two, then over the lanes. */
template <int kvType>
CHAIRLIFT_DEVICE void scoreRowsOfSegment(const AttentionArgs& args, const HeadLayout<kvType>& layout, const FewShared& shared,
                                         const uint8_t* base, const int32_t* table, BlockRange range, int firstQuery) {
  const int warp = threadIndex() / 32, lane = threadIndex() % 32, part = lane % 8 * 2;
  for (int index = warp; range.first + index < range.end; index += fewWarps) {
    const int b = range.first + index;
    const uint8_t* const block = base + int64_t(table[b]) * args.blockStride;
    float best[4] = {leastScore, leastScore, leastScore, leastScore};
    for (int first = 0; first < tokensOfBlock; first += 4) {
      const int token = first + lane / 8;
      const uint8_t* const key = block + (token * layout.keyRow + part) * layout.element;
      float sums[4][2] = {};
#pragma unroll 4
      for (int d = 0; d < layout.keyRow; d += 16) {
        const uint32_t pair = loadPair<kvType>(key + d * layout.element);
        const float k0 = kvOf<kvType>(pair, 0), k1 = kvOf<kvType>(pair, 1);
        const float* const values = shared.queries + (d + part) * shared.stride + firstQuery;
        const Floats4 q0 = *(const Floats4*)values, q1 = *(const Floats4*)(values + shared.stride);
        sums[0][0] = fusedMultiplyAdd(q0.x, k0, sums[0][0]);
        sums[0][1] = fusedMultiplyAdd(q1.x, k1, sums[0][1]);
        sums[1][0] = fusedMultiplyAdd(q0.y, k0, sums[1][0]);
        sums[1][1] = fusedMultiplyAdd(q1.y, k1, sums[1][1]);
        sums[2][0] = fusedMultiplyAdd(q0.z, k0, sums[2][0]);
        sums[2][1] = fusedMultiplyAdd(q1.z, k1, sums[2][1]);
        sums[3][0] = fusedMultiplyAdd(q0.w, k0, sums[3][0]);
        sums[3][1] = fusedMultiplyAdd(q1.w, k1, sums[3][1]);
      }
#pragma unroll
      for (int q = 0; q < 4; q++) {
        for (int half = 4; half > 0; half /= 2) {
          sums[q][0] = sums[q][0] + shuffleXor(sums[q][0], half);
          sums[q][1] = sums[q][1] + shuffleXor(sums[q][1], half);
        }
        const Seen seen = shared.seen[firstQuery + q];
        const int position = b * tokensOfBlock + token;
        const bool isSeen = position >= seen.first && position <= seen.last;
        const float product = sums[q][0] + sums[q][1];
        const float score = isSeen ? scoreOf<kvType>(args, product, layout.keyScales(block) + token) : leastScore;
        best[q] = score > best[q] ? score : best[q];
        if (part == 0) shared.weights[(index * tokensOfBlock + token) * shared.stride + firstQuery + q] = score;
      }
    }
#pragma unroll
    for (int q = 0; q < 4; q++) {
      const float largest = largestOf32(best[q]);
      if (lane == 0) shared.maxima[index * shared.stride + firstQuery + q] = largest;
    }
  }
}

/**
 * Scores of `count` queries become weights: a warp has a block, a lane a token. Block `range.first` of the table is block
 * `firstBlock` of the sequence. `scaleAt` has the scale of a position's value, or of the cache's.
 */
template <int kvType, int count, class ScaleAt>
CHAIRLIFT_DEVICE void weightsOfSegment(const AttentionArgs& args, const HeadLayout<kvType>& layout, const FewShared& shared,
                                       const uint8_t* base, const int32_t* table, BlockRange range, int firstBlock,
                                       int firstQuery, const ScaleAt& scaleAt) {
  const int warp = threadIndex() / 32, lane = threadIndex() % 32, warps = threadCount() / 32;
  const int stride = shared.stride;
  for (int index = warp; range.first + index < range.end; index += warps) {
    const uint8_t* const block = base + int64_t(table[range.first + index]) * args.blockStride;
    const int position = (firstBlock + index) * tokensOfBlock + lane;
    const float scale = kvType == kvByte ? scaleAt(position, layout.valueScales(block) + lane) : 1.0f;
    float* const at = shared.weights + (index * tokensOfBlock + lane) * stride + firstQuery;
    QueryFloats<count> weights, last, newest;
    weights.load(at);
#pragma unroll
    for (int q = 0; q < count; q++) newest.of[q] = leastScore;
#pragma unroll 1
    for (int i = 0; i <= index; i++) {
      QueryFloats<count> best;
      best.load(shared.maxima + i * stride + firstQuery);
#pragma unroll
      for (int q = 0; q < count; q++) {
        last.of[q] = newest.of[q];
        newest.of[q] = best.of[q] > newest.of[q] ? best.of[q] : newest.of[q];
      }
    }
    QueryFloats<count> sums;
#pragma unroll
    for (int q = 0; q < count; q++) {
      const Seen seen = shared.seen[firstQuery + q];
      const bool isSeen = position >= seen.first && position <= seen.last;
      const float weight = isSeen ? exponentialOf(weights.of[q] - newest.of[q]) : 0.0f;
      sums.of[q] = sumOf16(weight + shuffleXor(weight, 16));
      weights.of[q] = isSeen ? (kvType == kvByte ? weight * scale : weight) : unseenWeight;
    }
    weights.store(at);
    // Where the maximum stays, the decay is e^0, which is 1; one of infinity makes all NaN.
    if (lane == 0) {
      QueryFloats<count> decays;
#pragma unroll
      for (int q = 0; q < count; q++) {
        decays.of[q] = newest.of[q] - last.of[q] == 0 ? 1.0f : exponentialOf(last.of[q] - newest.of[q]);
      }
      decays.store(shared.decays + index * stride + firstQuery);
      sums.store(shared.added + index * stride + firstQuery);
    }
  }
}

/** Copies the values of a block to a stage. */
template <int kvType>
CHAIRLIFT_DEVICE void copyValues(const HeadLayout<kvType>& layout, const uint8_t* block, uint8_t* stage) {
  const uint8_t* const values = block + layout.valuesAt();
  const int rowBytes = layout.padded * layout.element, fromBytes = layout.keyRow * layout.element;
  const int chunks = rowBytes / 16, total = chunks * tokensOfBlock;
  for (int i = threadIndex(); i < total; i += threadCount()) {
    // Where nothing lies between rows, they are one.
    const int from = rowBytes == fromBytes ? i * 16 : i / chunks * fromBytes + i % chunks * 16;
    copyToShared(stage + i * 16, values + from);
  }
}

/** What a warp adds up: two queries and 64 values, two for each lane. */
struct FewUnit {
  int query, value;
  bool exists;
};

template <int kvType>
CHAIRLIFT_DEVICE FewUnit fewUnit(const HeadLayout<kvType>& layout, int queries, int unit) {
  const int slices = (layout.padded + 63) / 64, index = threadIndex() / 32 + unit * fewWarps;
  const int query = index / slices * 2, value = index % slices * 64 + threadIndex() % 32 * 2;
  return {query, value, query < queries && value < layout.padded};
}

/** Adds the weighted values of a segment, and leaves or joins its state. */
template <int kvType, int units>
CHAIRLIFT_DEVICE void weighSegment(const AttentionArgs& args, const AttentionPiece& piece, int kvHead,
                                   const HeadLayout<kvType>& layout, const FewShared& shared, const uint8_t* base,
                                   const int32_t* table, BlockRange range, Seen seenByAll, int segment) {
  const int stride = shared.stride, rowBytes = layout.padded * layout.element, stageBytes = rowBytes * tokensOfBlock;
  FewUnit unit[units];
  float sums[units][4];
#pragma unroll
  for (int u = 0; u < units; u++) {
    unit[u] = fewUnit<kvType>(layout, piece.queries, u);
    if (!unit[u].exists) unit[u].query = unit[u].value = 0;
    for (int i = 0; i < 4; i++) sums[u][i] = 0;
  }
  for (int b = range.first; b < range.end; b++) {
    if (shared.stageCount == 4) waitForCopies<2>();
    else if (shared.stageCount == 3) waitForCopies<1>();
    else waitForCopies<0>();
    syncBlock();
    const int index = b - range.first, ahead = b + shared.stageCount - 1;
    if (ahead < range.end) {
      copyValues<kvType>(layout, base + int64_t(table[ahead]) * args.blockStride,
                         shared.stages + (ahead - range.first) % shared.stageCount * stageBytes);
    }
    commitCopies();
    const uint8_t* const stage = shared.stages + index % shared.stageCount * stageBytes;
    const float* const weights = shared.weights + index * tokensOfBlock * stride;
    const bool isWhole = b * tokensOfBlock >= seenByAll.first && b * tokensOfBlock + tokensOfBlock - 1 <= seenByAll.last;
#pragma unroll
    for (int u = 0; u < units; u++) {
      const float* const decays = shared.decays + index * stride + unit[u].query;
      const float d0 = decays[0], d1 = decays[1];
      const uint8_t* const values = stage + unit[u].value * layout.element;
      const float* const own = weights + unit[u].query;
      float s0 = sums[u][0] * d0, s1 = sums[u][1] * d0, s2 = sums[u][2] * d1, s3 = sums[u][3] * d1;
      if (isWhole) {
#pragma unroll 8
        for (int t = 0; t < tokensOfBlock; t++) {
          const uint32_t pair = loadPair<kvType>(values + t * rowBytes);
          const float v0 = kvOf<kvType>(pair, 0), v1 = kvOf<kvType>(pair, 1);
          const Floats2 w = *(const Floats2*)(own + t * stride);
          s0 = fusedMultiplyAdd(w.x, v0, s0);
          s1 = fusedMultiplyAdd(w.x, v1, s1);
          s2 = fusedMultiplyAdd(w.y, v0, s2);
          s3 = fusedMultiplyAdd(w.y, v1, s3);
        }
      } else {
        for (int t = 0; t < tokensOfBlock; t++) {
          const uint32_t pair = loadPair<kvType>(values + t * rowBytes);
          const float v0 = kvOf<kvType>(pair, 0), v1 = kvOf<kvType>(pair, 1);
          const Floats2 w = *(const Floats2*)(own + t * stride);
          if (w.x != unseenWeight) s0 = fusedMultiplyAdd(w.x, v0, s0), s1 = fusedMultiplyAdd(w.x, v1, s1);
          if (w.y != unseenWeight) s2 = fusedMultiplyAdd(w.y, v0, s2), s3 = fusedMultiplyAdd(w.y, v1, s3);
        }
      }
      sums[u][0] = s0, sums[u][1] = s1, sums[u][2] = s2, sums[u][3] = s3;
    }
  }
  const bool isFirst = segment == piece.firstSegment, isLast = segment + 1 == piece.endSegment;
#pragma unroll
  for (int u = 0; u < units; u++) {
    if (!unit[u].exists) continue;
    for (int i = 0; i < 4; i++) {
      const int query = unit[u].query + i / 2, value = unit[u].value + i % 2;
      if (query >= piece.queries) continue;
      if (piece.parts > 1) {
        stateOf(args, piece, kvHead, segment, query, layout.padded)[stateHead + value] = sums[u][i];
        continue;
      }
      if (value >= layout.valueSize) continue;
      // The output holds what is joined so far.
      float* const output = outputOf(args, piece, kvHead, query, layout.valueSize) + value;
      const JoinFactors factors = shared.factors[query];
      const float joined = fusedMultiplyAdd(sums[u][i], factors.own, (isFirst ? 0.0f : *output) * factors.before);
      *output = isLast ? joined * divided(1.0f, shared.joined[query].total) : joined;
    }
  }
}

template <int kvType>
CHAIRLIFT_DEVICE void attendLargeSegment(const AttentionArgs& args, const AttentionPiece& piece, int kvHead,
                                         const HeadLayout<kvType>& layout, const FewShared& shared, const uint8_t* base,
                                         const int32_t* table, Seen seenByAny, Seen seenByAll, int segment) {
  const int thread = threadIndex(), stride = shared.stride, stageBytes = layout.padded * layout.element * tokensOfBlock;
  const BlockRange range = blocksSeen(seenByAny, segment, segment + 1);
  for (int i = 0; i + 1 < shared.stageCount; i++) {
    if (range.first + i < range.end) {
      copyValues<kvType>(layout, base + int64_t(table[range.first + i]) * args.blockStride, shared.stages + i * stageBytes);
    }
    commitCopies();
  }
  for (int q = 0; q < piece.queries; q += 4) {
    if (layout.keysAreRows) scoreRowsOfSegment<kvType>(args, layout, shared, base, table, range, q);
    else if (piece.queries == 1) scoreSegment<kvType, 1>(args, layout, shared, base, table, range, q);
    else scoreSegment<kvType, 4>(args, layout, shared, base, table, range, q);
  }
  syncBlock();
  for (int q = 0; q < piece.queries; q += 4) {
    weightsOfSegment<kvType, 4>(args, layout, shared, base, table, range, range.first, q,
                                [](int, const float* stored) { return *stored; });
  }
  syncBlock();
  // The values' first barrier comes before anybody reads what these write.
  if (thread < piece.queries) {
    float largest = leastScore, total = 0;
    for (int i = 0; i < range.end - range.first; i++) {
      const float best = shared.maxima[i * stride + thread];
      largest = best > largest ? best : largest;
      total = total * shared.decays[i * stride + thread] + shared.added[i * stride + thread];
    }
    if (piece.parts > 1) {
      float* const state = stateOf(args, piece, kvHead, segment, thread, layout.padded);
      state[0] = largest;
      state[1] = total;
    } else {
      shared.factors[thread] = join(shared.joined[thread], {largest, total});
    }
  }
  const int units = ((layout.padded + 63) / 64 * ((piece.queries + 1) / 2) + fewWarps - 1) / fewWarps;
  const auto weigh = [&](auto most) {
    weighSegment<kvType, decltype(most)::value>(args, piece, kvHead, layout, shared, base, table, range, seenByAll, segment);
  };
  if (units <= 4) weigh(Count<4>());
  else weigh(Count<8>());
  waitForCopies<0>();
  syncBlock();
}

/** Of heads with more than 128 values, or with keys that are rows. */
template <int kvType>
CHAIRLIFT_DEVICE void attendLarge(const AttentionArgs& args, const AttentionPiece& piece, int kvHead) {
  const HeadLayout<kvType> layout(args);
  FewShared shared(piece.queries <= 4 ? 4 : fewQueries, layout.keyRow);
  const int room = (args.sharedBytes - int(shared.stages - sharedMemory())) / (layout.padded * layout.element * tokensOfBlock);
  shared.stageCount = room < 4 ? room : 4;
  const int thread = threadIndex(), threads = threadCount();
  // Later rows see no less at the end, and no more at the start.
  const Seen front = seenBy(args, piece, 0), back = seenBy(args, piece, piece.queries - 1);
  const Seen seenByAny{front.first, back.last}, seenByAll{back.first, front.last};
  if (thread < shared.stride) shared.seen[thread] = seenBy(args, piece, thread);
  if (thread < piece.queries) shared.joined[thread] = startState(args, queryPlace(args, piece, kvHead, thread).head);
  for (int i = thread; i < layout.keyRow * shared.stride; i += threads) {
    const int q = i / layout.keyRow, d = i % layout.keyRow;
    float value = 0;
    if (q < piece.queries && d < layout.size) {
      const QueryPlace place = queryPlace(args, piece, kvHead, q);
      value = args.queries[int64_t(place.row) * args.queryStride + int64_t(place.head) * layout.size + d];
    }
    shared.queries[d * shared.stride + q] = value;
  }
  const int32_t* const table = args.tables + piece.tableStart;
  const uint8_t* const base = args.kv + int64_t(kvHead) * args.headBytes;
  syncBlock();
  for (int segment = piece.firstSegment; segment < piece.endSegment; segment++) {
    attendLargeSegment<kvType>(args, piece, kvHead, layout, shared, base, table, seenByAny, seenByAll, segment);
  }
}

}  // namespace
