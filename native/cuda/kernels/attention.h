// What kernels of paged attention share: KV elements, places of queries, and the join of segments. Softmax is kept online within
// segments of 512 tokens, which are joined in order. Include after heads.h.
#pragma once

namespace {

// Below all scores.
constexpr float leastScore = -3.4e38f;
// A weight of a token that its query does not see: its value may be anything, even NaN, and is left out.
constexpr float unseenWeight = -1.0f;

CHAIRLIFT_DEVICE float exponentialOf(float x) { return exponential(Vec{x}).lane; }

/** A whole number in the mantissa, so that no slow conversion is needed. */
CHAIRLIFT_DEVICE float byteToFloat(uint32_t byte) { return asFloat(0x4b000000u | (byte ^ 0x80u)) - 8388736.0f; }

/** Element `i` of some that are packed in a word. */
template <int kvType>
CHAIRLIFT_DEVICE float kvOf(uint32_t word, int i) {
  return kvType == kvHalf ? halfToFloat(uint16_t(word >> (16 * i))) : byteToFloat(word >> (8 * i) & 255u);
}
/** Two elements, packed. */
template <int kvType>
CHAIRLIFT_DEVICE uint32_t loadPair(const uint8_t* from) {
  return kvType == kvHalf ? *(const uint32_t*)from : uint32_t(*(const uint16_t*)from);
}

/** Where a head's keys and values are in a block. */
template <int kvType>
struct HeadLayout {
  static constexpr int element = kvType == kvHalf ? 2 : 1;
  int size, keyRow, valueSize, padded;
  bool keysAreRows;

  CHAIRLIFT_METHOD HeadLayout(const AttentionArgs& args)
      : size(args.headSize),
        keyRow(roundUpTo16(args.headSize)),
        valueSize(args.valuesInKeys > 0 ? args.valuesInKeys : args.headSize),
        padded(roundUpTo16(valueSize)),
        keysAreRows(args.valuesInKeys > 0) {}

  CHAIRLIFT_METHOD int valuesAt() const {
    return keysAreRows ? 0 : size * tokensOfBlock * element + (kvType == kvByte ? tokensOfBlock * 4 : 0);
  }
  /** Of kvByte: a scale for each token. */
  CHAIRLIFT_METHOD const float* valueScales(const uint8_t* block) const {
    return (const float*)(block + valuesAt() + keyRow * tokensOfBlock);
  }
  CHAIRLIFT_METHOD const float* keyScales(const uint8_t* block) const {
    return keysAreRows ? valueScales(block) : (const float*)(block + size * tokensOfBlock);
  }
};

/** The score of a product of a query and a key, before it is capped. */
template <int kvType>
CHAIRLIFT_DEVICE float scaledScore(const AttentionArgs& args, float product, float keyScale) {
  return (kvType == kvByte ? product * keyScale : product) * args.scale;
}

/** Caps scores in shared memory, apart from where they are made, because few models need it. */
CHAIRLIFT_DEVICE void capScores(const AttentionArgs& args, float* scores, int count) {
#pragma unroll 1
  for (int i = 0; i < count; i++) scores[i] = softcap(Vec{scores[i]}, args.softcap).lane;
}

template <int kvType>
CHAIRLIFT_DEVICE float scoreOf(const AttentionArgs& args, float product, const float* keyScale) {
  const float score = scaledScore<kvType>(args, product, kvType == kvByte ? *keyScale : 1.0f);
  return args.softcap > 0 ? softcap(Vec{score}, args.softcap).lane : score;
}

struct QueryPlace {
  int row, head;
};

CHAIRLIFT_DEVICE QueryPlace queryPlace(const AttentionArgs& args, const AttentionPiece& piece, int kvHead, int query) {
  const int group = args.headCount / args.kvHeadCount, index = piece.firstQuery + query;
  return {piece.firstRow + index / group, kvHead * group + index % group};
}

CHAIRLIFT_DEVICE float* outputOf(const AttentionArgs& args, const AttentionPiece& piece, int kvHead, int query, int valueSize) {
  const QueryPlace place = queryPlace(args, piece, kvHead, query);
  return args.outputs + int64_t(place.row) * args.outputStride + int64_t(place.head) * valueSize;
}

/** What a row sees; a query beyond those of the piece sees nothing. */
CHAIRLIFT_DEVICE Seen seenBy(const AttentionArgs& args, const AttentionPiece& piece, int query) {
  if (query >= piece.queries) return {0, -1};
  return args.view.of(piece.position + queryPlace(args, piece, 0, query).row - piece.firstRow, piece.end);
}

/** Softmax over some tokens: the largest score, and the sum of the weights relative to it. */
struct SoftmaxState {
  float largest, total;
};

/** What the values of both are multiplied by, when a segment is joined to those before it. */
struct JoinFactors {
  float before, own;
};

/** Before all segments. A sink counts as a token whose value is zero, seen before all others. */
CHAIRLIFT_DEVICE SoftmaxState startState(const AttentionArgs& args, int head) {
  if (!args.sinks) return {leastScore, 0.0f};
  return {args.sinks[head], 1.0f};
}

CHAIRLIFT_DEVICE JoinFactors join(SoftmaxState& joined, SoftmaxState segment) {
  const float newest = segment.largest > joined.largest ? segment.largest : joined.largest;
  const JoinFactors factors{exponentialOf(joined.largest - newest), exponentialOf(segment.largest - newest)};
  joined = {newest, fusedMultiplyAdd(segment.total, factors.own, joined.total * factors.before)};
  return factors;
}

CHAIRLIFT_DEVICE float* stateOf(const AttentionArgs& args, const AttentionPiece& piece, int kvHead, int segment, int query,
                                int padded) {
  const int64_t index = piece.firstState + int64_t(segment - piece.firstOfAll) * piece.queries + query;
  return args.states + (index * args.kvHeadCount + kvHead) * (stateHead + padded);
}

/** Whether this block is the last of those that have the same queries: then all their states may be read. */
CHAIRLIFT_DEVICE bool isLastPart(const AttentionArgs& args, const AttentionPiece& piece, int kvHead, int* flag) {
  fenceWrites();
  syncBlock();
  if (threadIndex() == 0) {
    int32_t* const counter = args.counters + piece.counter * args.kvHeadCount + kvHead;
    const int before = atomicIncrease(counter, 1);
    *flag = before == piece.parts - 1;
    // For the next layer.
    if (*flag) *counter = 0;
    fenceWrites();
  }
  syncBlock();
  return *flag != 0;
}

/** Joins the states of all parts, in order. `room` has at least eight floats for each query. */
CHAIRLIFT_DEVICE void joinStates(const AttentionArgs& args, const AttentionPiece& piece, int kvHead, int valueSize, int padded,
                                 float* room, int roomFloats) {
  const int queries = piece.queries, thread = threadIndex(), threads = threadCount();
  // Maxima, totals and factors of as many segments as fit, then the joined state of each query.
  const int most = (roomFloats - 2 * queries) / (4 * queries), quads = padded / 4;
  float* const largest = room;
  float* const totals = largest + most * queries;
  float* const before = totals + most * queries;
  float* const own = before + most * queries;
  float* const joined = own + most * queries;
  for (int q = thread; q < queries; q += threads) {
    const SoftmaxState start = startState(args, queryPlace(args, piece, kvHead, q).head);
    joined[2 * q] = start.largest;
    joined[2 * q + 1] = start.total;
  }
  for (int from = 0; from < piece.parts; from += most) {
    const int count = from + most < piece.parts ? most : piece.parts - from, items = count * queries;
    const bool isEnd = from + count == piece.parts;
    syncBlock();
    for (int i = thread; i < items; i += threads) {
      const float* const state = stateOf(args, piece, kvHead, piece.firstOfAll + from + i / queries, i % queries, padded);
      largest[i] = loadFresh(state);
      totals[i] = loadFresh(state + 1);
    }
    syncBlock();
    // The maximum after each segment.
    for (int q = thread; q < queries; q += threads) {
      float newest = joined[2 * q];
      for (int i = q; i < items; i += queries) {
        newest = largest[i] > newest ? largest[i] : newest;
        before[i] = newest;
      }
    }
    syncBlock();
    for (int i = thread; i < items; i += threads) own[i] = exponentialOf(largest[i] - before[i]);
    syncBlock();
    for (int i = thread; i < items; i += threads) {
      const float last = i < queries ? joined[2 * i] : before[i - queries];
      largest[i] = exponentialOf(last - before[i]);
    }
    syncBlock();
    for (int q = thread; q < queries; q += threads) {
      float total = joined[2 * q + 1];
      for (int i = q; i < items; i += queries) total = fusedMultiplyAdd(totals[i], own[i], total * largest[i]);
      joined[2 * q] = before[items - queries + q];
      joined[2 * q + 1] = total;
    }
    syncBlock();
    for (int i = thread; i < queries * quads; i += threads) {
      const int q = i / quads, d = i % quads * 4;
      float* const output = outputOf(args, piece, kvHead, q, valueSize);
      float sums[4] = {};
      for (int e = 0; e < 4; e++) {
        if (from > 0 && d + e < valueSize) sums[e] = output[d + e];
      }
      constexpr int ahead = 8;
      for (int s = 0; s < count; s += ahead) {
        Floats4 values[ahead];
#pragma unroll
        for (int k = 0; k < ahead; k++) {
          const int segment = s + k < count ? s + k : count - 1;
          const float* const state = stateOf(args, piece, kvHead, piece.firstOfAll + from + segment, q, padded);
          values[k] = loadFresh((const Floats4*)(state + stateHead + d));
        }
#pragma unroll
        for (int k = 0; k < ahead; k++) {
          if (s + k >= count) break;
          const float a = largest[(s + k) * queries + q], b = own[(s + k) * queries + q];
          sums[0] = fusedMultiplyAdd(values[k].x, b, sums[0] * a);
          sums[1] = fusedMultiplyAdd(values[k].y, b, sums[1] * a);
          sums[2] = fusedMultiplyAdd(values[k].z, b, sums[2] * a);
          sums[3] = fusedMultiplyAdd(values[k].w, b, sums[3] * a);
        }
      }
      const float inverse = isEnd ? divided(1.0f, joined[2 * q + 1]) : 1.0f;
      for (int e = 0; e < 4; e++) {
        if (d + e < valueSize) output[d + e] = sums[e] * inverse;
      }
    }
  }
}

}  // namespace
