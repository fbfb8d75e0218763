// Attention of many rows of a sequence, as in prompts: a block has up to 64 queries of one KV head and takes a KV block at a time.
// Each thread has small tiles of scores (queries x tokens) and of sums (queries x values) in registers. Include after
// attention-few.h.
#pragma once

namespace {

/**
 * Shared memory: queries [value][query], a block's keys and values, scores, then weights, [token][query], and numbers by query. A
 * row of weights has its vectors of four queries in another order, so that threads that write one column of scores use all banks.
 */
struct ManyShared {
  float* queries;
  uint8_t* keys;
  uint8_t* values;
  float* weights;
  float* decays;
  JoinFactors* factors;
  float* inverses;
  int* flag;

  CHAIRLIFT_METHOD ManyShared(int size, int keyBytes, int valueBytes) {
    queries = (float*)sharedMemory();
    keys = (uint8_t*)(queries + size * manyQueries);
    values = keys + keyBytes;
    weights = (float*)(values + valueBytes);
    decays = weights + tokensOfBlock * manyQueries;
    factors = (JoinFactors*)(decays + manyQueries);
    inverses = (float*)(factors + manyQueries);
    flag = (int*)(inverses + manyQueries);
  }

  CHAIRLIFT_METHOD float* weightsAt(int token, int query) const {
    return weights + token * manyQueries + ((query / 4) ^ (token / 4)) * 4 + query % 4;
  }
};

/** Copies whole vectors of 16 bytes. */
CHAIRLIFT_DEVICE void copyPart(const uint8_t* from, uint8_t* to, int bytes) {
  for (int i = threadIndex() * 16; i < bytes; i += threadCount() * 16) copyToShared(to + i, from + i);
  commitCopies();
}

/** `parts` is what one of 128 threads has: more threads have less each. */
template <int kvType, int parts>
struct ScoreTile {
  static constexpr int tokens = 4 / parts;
  // Neighbouring threads have neighbouring tokens.
  int query, token;

  CHAIRLIFT_METHOD ScoreTile()
      : query(threadIndex() / (tokensOfBlock / tokens) * 4), token(threadIndex() % (tokensOfBlock / tokens) * tokens) {}

  CHAIRLIFT_METHOD void run(const ManyShared& shared, int size, float (&sums)[4][tokens]) const {
    constexpr int element = HeadLayout<kvType>::element;
    const float* const queries = shared.queries + query;
    const uint8_t* const keys = shared.keys + token * element;
#pragma unroll 4
    for (int d = 0; d < size; d++) {
      const Floats4 q = *(const Floats4*)(queries + d * manyQueries);
      float k[tokens];
      load(keys + d * tokensOfBlock * element, k);
#pragma unroll
      for (int t = 0; t < tokens; t++) {
        sums[0][t] = fusedMultiplyAdd(q.x, k[t], sums[0][t]);
        sums[1][t] = fusedMultiplyAdd(q.y, k[t], sums[1][t]);
        sums[2][t] = fusedMultiplyAdd(q.z, k[t], sums[2][t]);
        sums[3][t] = fusedMultiplyAdd(q.w, k[t], sums[3][t]);
      }
    }
  }

  static CHAIRLIFT_METHOD void load(const uint8_t* from, float (&k)[tokens]) {
    if constexpr (kvType == kvHalf && tokens == 4) {
      const Words2 words = *(const Words2*)from;
      k[0] = kvOf<kvType>(words.x, 0), k[1] = kvOf<kvType>(words.x, 1);
      k[2] = kvOf<kvType>(words.y, 0), k[3] = kvOf<kvType>(words.y, 1);
    } else {
      const uint32_t word = tokens == 2 ? loadPair<kvType>(from) : *(const uint32_t*)from;
#pragma unroll
      for (int t = 0; t < tokens; t++) k[t] = kvOf<kvType>(word, t);
    }
  }
};

/** Eight queries and `count` values, next to each other, for each thread. */
template <int kvType, int parts, int count>
struct ValueTile {
  static constexpr int queries = 8;
  float sums[queries][count];
  int query, value;
  bool exists;

  CHAIRLIFT_METHOD ValueTile(int padded) {
    constexpr int across = 16 * parts;
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

  CHAIRLIFT_METHOD void decay(const ManyShared& shared) {
#pragma unroll
    for (int q = 0; q < queries; q++) {
      const float by = shared.decays[query + q];
      if (by == 1.0f) continue;
#pragma unroll
      for (int i = 0; i < count; i++) sums[q][i] = sums[q][i] * by;
    }
  }

  template <bool isWhole>
  CHAIRLIFT_METHOD void add(const ManyShared& shared, int rowBytes) {
    const uint8_t* const values = shared.values + value * HeadLayout<kvType>::element;
    // The order of weights is the same for four tokens.
#pragma unroll 1
    for (int first = 0; first < tokensOfBlock; first += 4) {
      const float* const lower = shared.weightsAt(first, query);
      const float* const upper = shared.weightsAt(first, query + 4);
#pragma unroll
      for (int t = 0; t < 4; t++) {
        const Floats4 low = *(const Floats4*)(lower + t * manyQueries), high = *(const Floats4*)(upper + t * manyQueries);
        const float w[queries] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
        float v[count];
        load(values + (first + t) * rowBytes, v);
#pragma unroll
        for (int q = 0; q < queries; q++) {
          if (!isWhole && w[q] == unseenWeight) continue;
#pragma unroll
          for (int i = 0; i < count; i++) sums[q][i] = fusedMultiplyAdd(w[q], v[i], sums[q][i]);
        }
      }
    }
  }

  static CHAIRLIFT_METHOD void load(const uint8_t* from, float (&v)[count]) {
    constexpr int each = kvType == kvHalf ? 2 : 4, words = count / each;
    uint32_t own[4] = {};
    if constexpr (words == 4) {
      const Words4 four = *(const Words4*)from;
      own[0] = four.x, own[1] = four.y, own[2] = four.z, own[3] = four.w;
    } else if constexpr (words == 2) {
      const Words2 two = *(const Words2*)from;
      own[0] = two.x, own[1] = two.y;
    } else {
      own[0] = *(const uint32_t*)from;
    }
#pragma unroll
    for (int i = 0; i < count; i++) v[i] = kvOf<kvType>(own[i / each], i % each);
  }
};

/** Scores of a block become weights. 2 * parts threads have a query, each every (2 * parts)th token. */
template <int kvType, int parts>
struct SoftmaxQuery {
  static constexpr int threads = 2 * parts, count = tokensOfBlock / threads;
  int query, part;
  Seen seen;
  SoftmaxState joined, segment;

  CHAIRLIFT_METHOD SoftmaxQuery(const AttentionArgs& args, const AttentionPiece& piece, int kvHead)
      : query(threadIndex() / threads), part(threadIndex() % threads), seen(seenBy(args, piece, query)) {
    joined = startState(args, query < piece.queries ? queryPlace(args, piece, kvHead, query).head : 0);
  }

  CHAIRLIFT_METHOD void startSegment() { segment = {leastScore, 0.0f}; }

  CHAIRLIFT_METHOD void run(const ManyShared& shared, int firstPosition, const float* valueScales) {
    float weights[count], best = leastScore;
#pragma unroll
    for (int i = 0; i < count; i++) {
      weights[i] = isSeen(firstPosition, i) ? *shared.weightsAt(part + i * threads, query) : leastScore;
      best = weights[i] > best ? weights[i] : best;
    }
#pragma unroll
    for (int half = parts; half > 0; half /= 2) {
      const float other = shuffleXor(best, half);
      best = other > best ? other : best;
    }
    const float newest = best > segment.largest ? best : segment.largest;
#pragma unroll
    for (int i = 0; i < count; i++) {
      weights[i] = isSeen(firstPosition, i) ? exponentialOf(weights[i] - newest) : 0.0f;
      float weight = weights[i];
      if (kvType == kvByte) weight = weight * valueScales[part + i * threads];
      *shared.weightsAt(part + i * threads, query) = isSeen(firstPosition, i) ? weight : unseenWeight;
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
    for (int half = parts; half > 0; half /= 2) added = added + shuffleXor(added, half);
    const float decay = newest - segment.largest == 0 ? 1.0f : exponentialOf(segment.largest - newest);
    segment = {newest, segment.total * decay + added};
    if (part == 0) shared.decays[query] = decay;
  }

 private:
  CHAIRLIFT_METHOD bool isSeen(int firstPosition, int i) const {
    const int position = firstPosition + part + i * threads;
    return position >= seen.first && position <= seen.last;
  }
};

/** Values of a segment go to its state, or are joined to those before it: the output holds what is joined so far. */
template <class Values>
CHAIRLIFT_DEVICE void finishSegment(const AttentionArgs& args, const AttentionPiece& piece, int kvHead, const ManyShared& shared,
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
    const float inverse = shared.inverses[query];
#pragma unroll
    for (int i = 0; i < count; i++) {
      if (values.value + i >= valueSize) break;
      const float joined = fusedMultiplyAdd(values.sums[q][i], factors.own, (isFirst ? 0.0f : output[i]) * factors.before);
      output[i] = isLast ? joined * inverse : joined;
    }
  }
}

template <int kvType, int parts, int count>
CHAIRLIFT_DEVICE void attendManyPiece(const AttentionArgs& args, const AttentionPiece& piece, int kvHead) {
  const HeadLayout<kvType> layout(args);
  const int keyBytes = layout.size * tokensOfBlock * layout.element, rowBytes = layout.padded * layout.element;
  const int valueBytes = rowBytes * tokensOfBlock;
  const ManyShared shared(layout.size, keyBytes, valueBytes);
  const int thread = threadIndex(), threads = threadCount();
  // Later rows see no less at the end, and no more at the start.
  const Seen front = seenBy(args, piece, 0), back = seenBy(args, piece, piece.queries - 1);
  const int end = back.last / tokensOfBlock + 1 < piece.endSegment * blocksOfSegment ? back.last / tokensOfBlock + 1
                                                                                      : piece.endSegment * blocksOfSegment;
  const int start = front.first / tokensOfBlock > piece.firstSegment * blocksOfSegment ? front.first / tokensOfBlock
                                                                                        : piece.firstSegment * blocksOfSegment;
  const int32_t* const table = args.tables + piece.tableStart;
  const uint8_t* const base = args.kv + int64_t(kvHead) * args.headBytes;
  const auto blockAt = [&](int b) { return base + int64_t(table[b]) * args.blockStride; };
  copyPart(blockAt(start), shared.keys, keyBytes);
  for (int i = thread; i < layout.size * manyQueries; i += threads) {
    const int q = i / layout.size, d = i % layout.size;
    float value = 0;
    if (q < piece.queries) {
      const QueryPlace place = queryPlace(args, piece, kvHead, q);
      value = args.queries[int64_t(place.row) * args.queryStride + int64_t(place.head) * layout.size + d];
    }
    shared.queries[d * manyQueries + q] = value;
  }
  SoftmaxQuery<kvType, parts> softmax(args, piece, kvHead);
  ValueTile<kvType, parts, count> values(layout.padded);
  const ScoreTile<kvType, parts> scores;
  softmax.startSegment();
  for (int b = start; b < end; b++) {
    const uint8_t* const block = blockAt(b);
    waitForCopies<0>();
    syncBlock();
    copyPart(block + layout.valuesAt(), shared.values, valueBytes);
    constexpr int tokens = ScoreTile<kvType, parts>::tokens;
    float sums[4][tokens] = {};
    scores.run(shared, layout.size, sums);
#pragma unroll
    for (int t = 0; t < tokens; t++) {
      const float* const scale = layout.keyScales(block) + scores.token + t;
      *(Floats4*)shared.weightsAt(scores.token + t, scores.query) = {
          scoreOf<kvType>(args, sums[0][t], scale), scoreOf<kvType>(args, sums[1][t], scale),
          scoreOf<kvType>(args, sums[2][t], scale), scoreOf<kvType>(args, sums[3][t], scale)};
    }
    syncBlock();
    const bool endsSegment = b + 1 == end || (b + 1) % blocksOfSegment == 0;
    const int segment = b / blocksOfSegment;
    if (b + 1 < end) copyPart(blockAt(b + 1), shared.keys, keyBytes);
    else commitCopies();
    softmax.run(shared, b * tokensOfBlock, layout.valueScales(block));
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
    const bool isWhole = b * tokensOfBlock >= back.first && b * tokensOfBlock + tokensOfBlock - 1 <= front.last;
    if (values.exists) {
      values.decay(shared);
      if (isWhole) values.template add<true>(shared, rowBytes);
      else values.template add<false>(shared, rowBytes);
    }
    if (!endsSegment) continue;
    finishSegment(args, piece, kvHead, shared, layout.valueSize, layout.padded, segment, values);
    values.clear();
    softmax.startSegment();
  }
  if (piece.parts == 1 || !isLastPart(args, piece, kvHead, shared.flag)) return;
  joinStates(args, piece, kvHead, layout.valueSize, layout.padded, shared.queries, int(shared.decays - shared.queries));
}

/** Pieces come in falling order of work: blocks take them forth and back, so that all have about as much. */
template <int kvType, int parts, int count>
CHAIRLIFT_DEVICE void attendMany(const AttentionArgs& args) {
  waitForPrevious();
  startNext();
  const int total = *args.pieceCount * args.kvHeadCount, blocks = blocksX();
  for (int turn = 0; turn * blocks < total; turn++) {
    const int i = turn * blocks + (turn % 2 == 0 ? blockX() : blocks - 1 - blockX());
    if (i >= total) continue;
    const AttentionPiece piece = args.pieces[i / args.kvHeadCount];
    attendManyPiece<kvType, parts, count>(args, piece, i % args.kvHeadCount);
    syncBlock();
  }
}

}  // namespace
