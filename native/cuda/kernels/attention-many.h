// Attention of many rows of a sequence, as in prompts: a block has up to 64 queries of one KV head and takes a tile of KV blocks at a time.
// Each thread has small tiles of scores (queries x tokens) and of sums (queries x values) in registers. Include after
// attention-few.h.
#pragma once

namespace {

/** Numbers of `queries` queries and `count` KV elements that are multiplied with each other, as they are in shared memory. */
template <int kvType, int queries, int count>
struct Operands {
  static constexpr int bytes = count * HeadLayout<kvType>::element, each = 4 / HeadLayout<kvType>::element;
  QueryFloats<4> left[queries / 4];
  uint32_t right[4];

  /** `low`: the first four queries, `high`: the others. */
  CHAIRLIFT_METHOD void load(const float* low, const float* high, const uint8_t* from) {
    left[0].load(low);
    if constexpr (queries == 8) left[1].load(high);
    if constexpr (bytes == 16) {
      const Words4 four = *(const Words4*)from;
      right[0] = four.x, right[1] = four.y, right[2] = four.z, right[3] = four.w;
    } else if constexpr (bytes == 8) {
      const Words2 two = *(const Words2*)from;
      right[0] = two.x, right[1] = two.y;
    } else if constexpr (bytes == 4) {
      right[0] = *(const uint32_t*)from;
    } else {
      right[0] = *(const uint16_t*)from;
    }
  }
  /** `isWhole`: there are no weights of tokens that are not seen. */
  template <bool isWhole>
  CHAIRLIFT_METHOD void addTo(float (&sums)[queries][count]) const {
    float elements[count];
#pragma unroll
    for (int i = 0; i < count; i++) elements[i] = kvOf<kvType>(right[i / each], i % each);
#pragma unroll
    for (int q = 0; q < queries; q++) {
      const float own = left[q / 4].of[q % 4];
      if (!isWhole && own == unseenWeight) continue;
#pragma unroll
      for (int i = 0; i < count; i++) sums[q][i] = fusedMultiplyAdd(own, elements[i], sums[q][i]);
    }
  }
};

/**
 * Adds `steps` products, a multiple of four: `load(operands, first, i)` reads those of step `first` + `i`. What is multiplied next
 * is read before, so that nothing waits for shared memory.
 */
template <bool isWhole, int kvType, int queries, int count, class Load>
CHAIRLIFT_DEVICE void addProductsAhead(float (&sums)[queries][count], int steps, const Load& load) {
  Operands<kvType, queries, count> even, odd;
  load(even, 0, 0);
#pragma unroll 1
  for (int first = 0; first < steps; first += 4) {
    load(odd, first, 1);
    even.template addTo<isWhole>(sums);
    load(even, first, 2);
    odd.template addTo<isWhole>(sums);
    load(odd, first, 3);
    even.template addTo<isWhole>(sums);
    load(even, first + 4 < steps ? first + 4 : 0, 0);
    odd.template addTo<isWhole>(sums);
  }
}

/**
 * Shared memory: queries [value][query], keys [value][token] and values [token][value] of a tile of blocks, scores, then weights,
 * [token][query], and numbers by query. Between four tokens and the next is room for a vector, so that threads that write scores of
 * one query use all banks.
 */
template <int kvType, int tileTokens>
struct ManyShared {
  static constexpr int blocks = tileTokens / tokensOfBlock, fourTokens = 4 * manyQueries + 4;
  float* queries;
  uint8_t* keys;
  uint8_t* values;
  // Of kvByte: by token.
  float* keyScales;
  float* valueScales;
  float* weights;
  // [block][query].
  float* decays;
  JoinFactors* factors;
  float* inverses;
  // Whether this is the last part, and the next piece.
  int* flag;
  int* next;

  CHAIRLIFT_METHOD ManyShared(int size, int padded) {
    constexpr int element = HeadLayout<kvType>::element, scales = kvType == kvByte ? tileTokens : 0;
    queries = (float*)sharedMemory();
    keys = (uint8_t*)(queries + size * manyQueries);
    values = keys + size * tileTokens * element;
    keyScales = (float*)(values + padded * tileTokens * element);
    valueScales = keyScales + scales;
    weights = valueScales + scales;
    decays = weights + tileTokens / 4 * fourTokens;
    factors = (JoinFactors*)(decays + blocks * manyQueries);
    inverses = (float*)(factors + manyQueries);
    flag = (int*)(inverses + manyQueries);
    next = flag + 1;
  }

  CHAIRLIFT_METHOD float* weightsAt(int token, int query) const {
    return weights + token / 4 * fourTokens + token % 4 * manyQueries + query;
  }

  CHAIRLIFT_METHOD void copyKeys(const HeadLayout<kvType>& layout, const uint8_t* block, int index) const {
    // Vectors of a block's row, and of the tile's.
    constexpr int own = tokensOfBlock * HeadLayout<kvType>::element / 16, all = own * blocks;
    for (int i = threadIndex(); i < layout.size * own; i += threadCount()) {
      copyToShared(keys + (i / own * all + index * own + i % own) * 16, block + i * 16);
    }
    copyScales(layout.keyScales(block), keyScales + index * tokensOfBlock);
  }
  CHAIRLIFT_METHOD void copyValues(const HeadLayout<kvType>& layout, const uint8_t* block, int index) const {
    const int bytes = layout.padded * tokensOfBlock * layout.element;
    for (int i = threadIndex() * 16; i < bytes; i += threadCount() * 16) {
      copyToShared(values + index * bytes + i, block + layout.valuesAt() + i);
    }
    copyScales(layout.valueScales(block), valueScales + index * tokensOfBlock);
  }

 private:
  CHAIRLIFT_METHOD void copyScales(const float* from, float* to) const {
    if (kvType == kvByte && threadIndex() < tokensOfBlock / 4) copyToShared(to + threadIndex() * 4, from + threadIndex() * 4);
  }
};

/** Scores of `queries` queries and `tokens` tokens for each thread. */
template <int kvType, int tileTokens, int queries, int tokens>
struct ScoreTile {
  // Neighbouring threads have neighbouring tokens.
  int query, token;
  float sums[queries][tokens];

  CHAIRLIFT_METHOD ScoreTile()
      : query(threadIndex() / (tileTokens / tokens) * queries), token(threadIndex() % (tileTokens / tokens) * tokens) {}

  CHAIRLIFT_METHOD void run(const ManyShared<kvType, tileTokens>& shared, int size) {
    constexpr int element = HeadLayout<kvType>::element;
#pragma unroll
    for (int q = 0; q < queries; q++) {
#pragma unroll
      for (int t = 0; t < tokens; t++) sums[q][t] = 0;
    }
    const float* const from = shared.queries + query;
    const uint8_t* const keys = shared.keys + token * element;
    const auto load = [&](Operands<kvType, queries, tokens>& to, int first, int i) {
      const float* const at = from + (first + i) * manyQueries;
      to.load(at, at + 4, keys + (first + i) * tileTokens * element);
    };
    const int whole = size / 4 * 4;
    if (whole > 0) addProductsAhead<true, kvType>(sums, whole, load);
    for (int d = whole; d < size; d++) {
      Operands<kvType, queries, tokens> own;
      load(own, d, 0);
      own.template addTo<true>(sums);
    }
  }

  CHAIRLIFT_METHOD void store(const AttentionArgs& args, const ManyShared<kvType, tileTokens>& shared) const {
#pragma unroll
    for (int t = 0; t < tokens; t++) {
      const float scale = kvType == kvByte ? shared.keyScales[token + t] : 1.0f;
#pragma unroll
      for (int q = 0; q < queries; q += 4) {
        *(Floats4*)shared.weightsAt(token + t, query + q) = {
            scaledScore<kvType>(args, sums[q][t], scale), scaledScore<kvType>(args, sums[q + 1][t], scale),
            scaledScore<kvType>(args, sums[q + 2][t], scale), scaledScore<kvType>(args, sums[q + 3][t], scale)};
      }
    }
    if (args.softcap <= 0) return;
#pragma unroll 1
    for (int t = 0; t < tokens; t++) capScores(args, shared.weightsAt(token + t, query), queries);
  }
};

/** Eight queries and `count` values, next to each other, for each thread. */
template <int kvType, int tileTokens, int count>
struct ValueTile {
  static constexpr int queries = 8;
  float sums[queries][count];
  int query, value;
  bool exists;

  CHAIRLIFT_METHOD ValueTile(int padded) {
    const int across = threadCount() / (manyQueries / queries);
    query = threadIndex() / across * queries;
    value = threadIndex() % across * count;
    exists = value < padded;
    clear();
  }

  CHAIRLIFT_METHOD void clear() {
#pragma unroll
    for (int q = 0; q < queries; q++) {
#pragma unroll
      for (int i = 0; i < count; i++) sums[q][i] = 0;
    }
  }

  /** Adds block `index` of the tile, in the order of tokens. */
  template <bool isWhole>
  CHAIRLIFT_METHOD void add(const ManyShared<kvType, tileTokens>& shared, int index, int rowBytes) {
#pragma unroll
    for (int q = 0; q < queries; q++) {
      const float by = shared.decays[index * manyQueries + query + q];
      if (by == 1.0f) continue;
#pragma unroll
      for (int i = 0; i < count; i++) sums[q][i] = sums[q][i] * by;
    }
    const uint8_t* const values = shared.values + value * HeadLayout<kvType>::element;
    const float* const weights = shared.weightsAt(index * tokensOfBlock, query);
    addProductsAhead<isWhole, kvType>(sums, tokensOfBlock, [&](Operands<kvType, queries, count>& to, int first, int i) {
      const float* const at = weights + first / 4 * shared.fourTokens + i * manyQueries;
      to.load(at, at + 4, values + (index * tokensOfBlock + first + i) * rowBytes);
    });
  }
};

/** Scores of a block become weights. Neighbouring threads have a query, each every `threads`th token. */
template <int kvType, int tileTokens, int threads>
struct SoftmaxQuery {
  static constexpr int count = tokensOfBlock / threads;
  int query, part;
  Seen seen;
  SoftmaxState joined, segment;

  CHAIRLIFT_METHOD SoftmaxQuery(const AttentionArgs& args, const AttentionPiece& piece, int kvHead)
      : query(threadIndex() / threads), part(threadIndex() % threads), seen(seenBy(args, piece, query)) {
    joined = startState(args, query < piece.queries ? queryPlace(args, piece, kvHead, query).head : 0);
  }

  CHAIRLIFT_METHOD void startSegment() { segment = {leastScore, 0.0f}; }

  /** Block `index` of the tile; `isWhole`: all queries see all of it. */
  template <bool isWhole>
  CHAIRLIFT_METHOD void run(const ManyShared<kvType, tileTokens>& shared, int index, int firstPosition) {
    float weights[count], best = leastScore;
    float* own[count];
#pragma unroll
    for (int i = 0; i < count; i++) {
      own[i] = shared.weightsAt(index * tokensOfBlock + part + i * threads, query);
      weights[i] = isWhole || isSeen(firstPosition, i) ? *own[i] : leastScore;
      best = weights[i] > best ? weights[i] : best;
    }
#pragma unroll
    for (int half = threads / 2; half > 0; half /= 2) {
      const float other = shuffleXor(best, half);
      best = other > best ? other : best;
    }
    const float newest = best > segment.largest ? best : segment.largest;
#pragma unroll
    for (int i = 0; i < count; i++) {
      const bool counts = isWhole || isSeen(firstPosition, i);
      weights[i] = counts ? exponentialOf(weights[i] - newest) : 0.0f;
      float weight = weights[i];
      if (kvType == kvByte) weight = weight * shared.valueScales[index * tokensOfBlock + part + i * threads];
      *own[i] = counts ? weight : unseenWeight;
    }
    // Halves of the block are folded onto each other, the last ones between threads.
#pragma unroll
    for (int half = count / 2; half > 0; half /= 2) {
#pragma unroll
      for (int i = 0; i < count / 2; i++) {
        if (i < half) weights[i] = weights[i] + weights[i + half];
      }
    }
    float added = weights[0];
#pragma unroll
    for (int half = threads / 2; half > 0; half /= 2) added = added + shuffleXor(added, half);
    const float decay = newest - segment.largest == 0 ? 1.0f : exponentialOf(segment.largest - newest);
    segment = {newest, segment.total * decay + added};
    if (part == 0) shared.decays[index * manyQueries + query] = decay;
  }

 private:
  CHAIRLIFT_METHOD bool isSeen(int firstPosition, int i) const {
    const int position = firstPosition + part + i * threads;
    return position >= seen.first && position <= seen.last;
  }
};

/** Values of a segment go to its state, or are joined to those before it: the output holds what is joined so far. */
template <class Shared, class Values>
CHAIRLIFT_DEVICE void finishSegment(const AttentionArgs& args, const AttentionPiece& piece, int kvHead, const Shared& shared,
                                    int valueSize, int padded, int segment, Values& values) {
  if (!values.exists) return;
  const bool isFirst = segment == piece.firstSegment, isLast = segment + 1 == piece.endSegment;
  constexpr int count = sizeof values.sums[0] / sizeof(float);
#pragma unroll
  for (int q = 0; q < Values::queries; q++) {
    const int query = values.query + q;
    if (query >= piece.queries) break;
    if (piece.parts > 1) {
      float* const state = stateOf(args, piece, kvHead, segment, query, padded) + stateHead + values.value;
#pragma unroll
      for (int i = 0; i < count; i++) state[i] = values.sums[q][i];
      continue;
    }
    float* const output = outputOf(args, piece, kvHead, query, valueSize) + values.value;
    const JoinFactors factors = shared.factors[query];
    const float inverse = isLast ? shared.inverses[query] : 1.0f;
    float before[count] = {};
    const bool isAligned = valueSize % 4 == 0 && args.outputStride % 4 == 0;
    if (!isFirst) {
#pragma unroll
      for (int i = 0; i < count; i += 4) {
        if (isAligned && values.value + i < valueSize) {
          const Floats4 four = *(const Floats4*)(output + i);
          before[i] = four.x, before[i + 1] = four.y, before[i + 2] = four.z, before[i + 3] = four.w;
        }
      }
      for (int i = 0; i < count && !isAligned; i++) {
        if (values.value + i < valueSize) before[i] = output[i];
      }
    }
#pragma unroll
    for (int i = 0; i < count; i++) {
      const float joined = fusedMultiplyAdd(values.sums[q][i], factors.own, before[i] * factors.before);
      before[i] = isLast ? joined * inverse : joined;
    }
#pragma unroll
    for (int i = 0; i < count; i += 4) {
      if (isAligned && values.value + i < valueSize) {
        *(Floats4*)(output + i) = {before[i], before[i + 1], before[i + 2], before[i + 3]};
      }
    }
    for (int i = 0; i < count && !isAligned; i++) {
      if (values.value + i < valueSize) output[i] = before[i];
    }
  }
}

template <int kvType, int tileTokens, int scoreQueries, int scoreTokens, int valuesOfThread>
CHAIRLIFT_DEVICE void attendManyPiece(const AttentionArgs& args, const AttentionPiece& piece, int kvHead,
                                      const ManyShared<kvType, tileTokens>& shared) {
  constexpr int threads = manyQueries * tileTokens / (scoreQueries * scoreTokens), blocksOfTile = tileTokens / tokensOfBlock;
  const HeadLayout<kvType> layout(args);
  // Later rows see no less at the end, and no more at the start.
  const Seen front = seenBy(args, piece, 0), back = seenBy(args, piece, piece.queries - 1);
  const BlockRange range = blocksSeen({front.first, back.last}, piece.firstSegment, piece.endSegment);
  const int32_t* const table = args.tables + piece.tableStart;
  const uint8_t* const base = args.kv + int64_t(kvHead) * args.headBytes;
  // A block of a tile that nobody sees has what another has, and weighs nothing.
  const auto blockAt = [&](int b) {
    const int existing = b < range.first ? range.first : b < range.end ? b : range.end - 1;
    return base + int64_t(table[existing]) * args.blockStride;
  };
  const auto copyKeys = [&](int first) {
    for (int i = 0; i < blocksOfTile; i++) shared.copyKeys(layout, blockAt(first + i), i);
    commitCopies();
  };
  const int start = range.first / blocksOfTile * blocksOfTile;
  copyKeys(start);
  // A warp has one query at a time.
  for (int q = threadIndex() / 32; q < manyQueries; q += threads / 32) {
    const QueryPlace place = queryPlace(args, piece, kvHead, q < piece.queries ? q : 0);
    const float* const from = args.queries + int64_t(place.row) * args.queryStride + int64_t(place.head) * layout.size;
#pragma unroll 4
    for (int d = threadIndex() % 32; d < layout.size; d += 32) shared.queries[d * manyQueries + q] = from[d];
  }
  SoftmaxQuery<kvType, tileTokens, threads / manyQueries> softmax(args, piece, kvHead);
  ValueTile<kvType, tileTokens, valuesOfThread> values(layout.padded);
  softmax.startSegment();
  for (int b = start; b < range.end; b += blocksOfTile) {
    waitForCopies<0>();
    syncBlock();
    for (int i = 0; i < blocksOfTile; i++) shared.copyValues(layout, blockAt(b + i), i);
    commitCopies();
    ScoreTile<kvType, tileTokens, scoreQueries, scoreTokens> scores;
    scores.run(shared, layout.size);
    scores.store(args, shared);
    // The values' scales too are there afterwards; where values are bytes, they are a part of the weights.
    if (kvType == kvByte) waitForCopies<0>();
    syncBlock();
    const bool endsSegment = b + blocksOfTile >= range.end || (b + blocksOfTile) % blocksOfSegment == 0;
    const int segment = b / blocksOfSegment;
    if (b + blocksOfTile < range.end) copyKeys(b + blocksOfTile);
    else commitCopies();
    const int firstToken = b * tokensOfBlock;
    const bool isWhole = firstToken >= back.first && firstToken + tileTokens - 1 <= front.last;
#pragma unroll 1
    for (int i = 0; i < blocksOfTile; i++) {
      if (isWhole) softmax.template run<true>(shared, i, firstToken + i * tokensOfBlock);
      else softmax.template run<false>(shared, i, firstToken + i * tokensOfBlock);
    }
    if (endsSegment && piece.parts == 1) {
      const JoinFactors factors = join(softmax.joined, softmax.segment);
      if (softmax.part == 0) {
        shared.factors[softmax.query] = factors;
        shared.inverses[softmax.query] = divided(1.0f, softmax.joined.total);
      }
    } else if (endsSegment && softmax.part == 0 && softmax.query < piece.queries) {
      float* const state = stateOf(args, piece, kvHead, segment, softmax.query, layout.padded);
      state[0] = softmax.segment.largest;
      state[1] = softmax.segment.total;
    }
    // The values are there; the next keys may not be.
    waitForCopies<1>();
    syncBlock();
    if (values.exists) {
      const int rowBytes = layout.padded * layout.element;
#pragma unroll 1
      for (int i = 0; i < blocksOfTile; i++) {
        if (isWhole) values.template add<true>(shared, i, rowBytes);
        else if (b + i >= range.first && b + i < range.end) values.template add<false>(shared, i, rowBytes);
      }
    }
    if (!endsSegment) continue;
    finishSegment(args, piece, kvHead, shared, layout.valueSize, layout.padded, segment, values);
    values.clear();
    softmax.startSegment();
  }
  if (piece.parts == 1 || !isLastPart(args, piece, kvHead, shared.flag)) return;
  joinStates(args, piece, kvHead, layout.valueSize, layout.padded, shared.queries, int(shared.decays - shared.queries));
}

/**
 * Pieces come in falling order of work, and each block takes the next one whenever it has finished another. Every block asks once
 * more than it has pieces: the last to ask prepares the counter for the next layer.
 */
template <int kvType, int tileTokens, int scoreQueries, int scoreTokens, int valuesOfThread>
CHAIRLIFT_DEVICE void attendMany(const AttentionArgs& args) {
  waitForPrevious();
  startNext();
  const HeadLayout<kvType> layout(args);
  const ManyShared<kvType, tileTokens> shared(layout.size, layout.padded);
  const int total = *args.pieceCount * args.kvHeadCount, blocks = blocksX();
  int32_t* const taken = args.pieceCount + 1;
  for (;;) {
    if (threadIndex() == 0) {
      *shared.next = atomicIncrease(taken, 1);
      if (*shared.next == total + blocks - 1) *taken = 0;
    }
    syncBlock();
    const int i = *shared.next;
    if (i >= total) return;
    const AttentionPiece piece = args.pieces[i / args.kvHeadCount];
    attendManyPiece<kvType, tileTokens, scoreQueries, scoreTokens, valuesOfThread>(args, piece, i % args.kvHeadCount, shared);
    syncBlock();
  }
}

}  // namespace
