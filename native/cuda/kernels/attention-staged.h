// Attention of a few rows with heads of at most 128 values. Time is mostly latency, so all keys and values that fit are on their
// way to shared memory at once: a warp copies them to stages of its own, in a ring. Include after attention-few.h.
#pragma once

namespace {

/**
 * Keys and values of a segment on their way through stages: every warp has a ring of its own, and items in order. First come the
 * keys of its pairs of blocks, some values of both blocks an item, [value][token of the pair]; then values of some tokens.
 */
template <int kvType>
struct StagedBlocks {
  static constexpr int element = HeadLayout<kvType>::element;
  static constexpr int keyValues = 64 / element, valueTokens = 32 / element, keyBytes = 2 * tokensOfBlock * element;
  const HeadLayout<kvType>& layout;
  const uint8_t* base;
  int64_t blockStride;
  // The blocks of the segment, in shared memory, and how many there are.
  const int32_t* table;
  int count;
  uint8_t* stages;
  // Stages of a warp: 2 or 4.
  int depth;

  CHAIRLIFT_METHOD const uint8_t* block(int index) const { return base + int64_t(table[index]) * blockStride; }
  CHAIRLIFT_METHOD int keyItemsOfPair() const { return (layout.size + keyValues - 1) / keyValues; }
  CHAIRLIFT_METHOD int keyItems() const {
    const int pairs = (count + 1) / 2, warps = threadCount() / 32, warp = threadIndex() / 32;
    return warp < pairs ? ((pairs - 1 - warp) / warps + 1) * keyItemsOfPair() : 0;
  }
  CHAIRLIFT_METHOD int valueItems() const { return count * tokensOfBlock / valueTokens; }
  /** Rounds of values start with the first stage, so that all warps know where they are. */
  CHAIRLIFT_METHOD uint8_t* stage(int warp, int round) const {
    return stages + (warp * depth + (round & (depth - 1))) * stageBytesOfFew;
  }
  /** A warp copies an item, if there is one: a group of copies in any case. Values come in `round`s, before which are keys. */
  CHAIRLIFT_METHOD void copy(int round) const {
    const int warp = threadIndex() / 32, lane = threadIndex() % 32, warps = threadCount() / 32;
    uint8_t* const to = stage(warp, round);
    if (round < 0) {
      constexpr int vectors = keyBytes / 16, own = vectors / 2;
      const int ofPair = keyItemsOfPair(), item = keyItems() + round, index = (warp + item / ofPair * warps) * 2 + lane % vectors / own;
      const int first = item % ofPair * keyValues, end = layout.size - first < keyValues ? layout.size - first : keyValues;
      // The second of a pair may be missing.
      if (index < count) {
        const uint8_t* const from = block(index) + first * keyBytes / 2 + lane % own * 16;
#pragma unroll 4
        for (int d = lane / vectors; d < end; d += 32 / vectors) {
          copyToShared(to + d * keyBytes + lane % vectors * 16, from + d * keyBytes / 2);
        }
      }
    } else if (round * warps + warp < valueItems()) {
      const int token = (round * warps + warp) * valueTokens, rowBytes = layout.padded * element;
      const uint8_t* const from = block(token / tokensOfBlock) + layout.valuesAt() + token % tokensOfBlock * rowBytes;
#pragma unroll 4
      for (int at = lane * 16; at < valueTokens * rowBytes; at += 32 * 16) copyToShared(to + at, from + at);
    }
    commitCopies();
  }
  /** Waits for the oldest item of this warp that it has not waited for. */
  CHAIRLIFT_METHOD void wait() const {
    if (depth == 2) waitForCopies<1>();
    else waitForCopies<3>();
  }
};

/**
 * Tokens of this step that this kernel itself stores: their keys and values are in shared memory as the cache has them, and are put
 * into stages over what the cache held before. Other blocks may write there meanwhile.
 */
template <int kvType>
struct NewTokens {
  static constexpr int element = HeadLayout<kvType>::element;
  // The position of the first, and how many there are.
  int position, count;
  int keyRow;
  // A head of each query, then two of each token, while they are placed.
  float* heads;
  // Of keys and values.
  float* scales;
  uint8_t* elements;

  CHAIRLIFT_METHOD NewTokens(uint8_t* at, int queries, int itsKeyRow) : position(0), count(0), keyRow(itsKeyRow) {
    heads = (float*)at;
    scales = heads + (queries + 2 * mostFewRows) * keyRow;
    elements = (uint8_t*)(scales + 2 * mostFewRows);
  }
  CHAIRLIFT_METHOD uint8_t* keys(int i) const { return elements + 2 * i * keyRow * element; }
  CHAIRLIFT_METHOD uint8_t* values(int i) const { return keys(i) + keyRow * element; }
  /** The scale of the key (0) or value (1) at a position. */
  CHAIRLIFT_METHOD float scaleAt(int at, int which, const float* stored) const {
    return at >= position && at < position + count ? scales[2 * (at - position) + which] : *stored;
  }

  /** Elements `first` … `first` + `size` - 1 of keys go to a stage of a pair of blocks, of which the first token is at `from`. */
  CHAIRLIFT_METHOD void patchKeys(uint8_t* stage, int from, int first, int size) const {
    for (int i = 0; i < count; i++) {
      const int token = position + i - from;
      if (token < 0 || token >= 2 * tokensOfBlock) continue;
      for (int d = threadIndex() % 32; d < size; d += 32) {
        copyElement(stage + (d * 2 * tokensOfBlock + token) * element, keys(i) + (first + d) * element);
      }
    }
    syncWarp();
  }
  /** Rows of `padded` values go to a stage with the tokens from `from` on. */
  CHAIRLIFT_METHOD void patchValues(uint8_t* stage, int from, int padded) const {
    for (int i = 0; i < count; i++) {
      const int token = position + i - from;
      if (token < 0 || token >= StagedBlocks<kvType>::valueTokens) continue;
      for (int d = threadIndex() % 32; d < padded; d += 32) {
        copyElement(stage + (token * padded + d) * element, values(i) + d * element);
      }
    }
  }
  /** Writes a token to its block. */
  CHAIRLIFT_METHOD void store(const HeadLayout<kvType>& layout, int i, uint8_t* block) const {
    const int token = (position + i) % tokensOfBlock, lane = threadIndex() % 32;
    for (int d = lane; d < layout.size; d += 32) {
      copyElement(block + (d * tokensOfBlock + token) * element, keys(i) + d * element);
    }
    uint8_t* const row = block + layout.valuesAt() + token * layout.padded * element;
    for (int d = lane; d < layout.padded; d += 32) copyElement(row + d * element, values(i) + d * element);
    if (kvType == kvHalf || lane > 0) return;
    ((float*)layout.keyScales(block))[token] = scales[2 * i];
    ((float*)layout.valueScales(block))[token] = scales[2 * i + 1];
  }

 private:
  static CHAIRLIFT_METHOD void copyElement(uint8_t* to, const uint8_t* from) {
    if (kvType == kvHalf) *(uint16_t*)to = *(const uint16_t*)from;
    else *to = *from;
  }
};

/** Adds the products of `queries` queries and `values` elements of the keys of two tokens. */
template <int kvType, int queries, int values>
CHAIRLIFT_DEVICE void addProducts(const float* from, const uint8_t* keys, float (&sums)[queries][2]) {
  uint32_t pairs[values];
  float query[values][queries];
#pragma unroll
  for (int i = 0; i < values; i++) pairs[i] = loadPair<kvType>(keys + i * StagedBlocks<kvType>::keyBytes);
  // Queries have no room between them.
  constexpr int together = queries * values % 4 == 0 ? 4 : queries;
#pragma unroll
  for (int i = 0; i < queries * values; i += together) {
    QueryFloats<together> some;
    some.load(from + i);
#pragma unroll
    for (int k = 0; k < together; k++) query[(i + k) / queries][(i + k) % queries] = some.of[k];
  }
#pragma unroll
  for (int i = 0; i < values; i++) {
    const float first = kvOf<kvType>(pairs[i], 0), second = kvOf<kvType>(pairs[i], 1);
#pragma unroll
    for (int q = 0; q < queries; q++) {
      sums[q][0] = fusedMultiplyAdd(query[i][q], first, sums[q][0]);
      sums[q][1] = fusedMultiplyAdd(query[i][q], second, sums[q][1]);
    }
  }
}

/** Scores of all queries and a pair of blocks: a lane has two tokens. `round` is that of the pair's first item. */
template <int kvType, int queries>
CHAIRLIFT_DEVICE void scorePair(const AttentionArgs& args, const StagedBlocks<kvType>& blocks, const FewShared& shared,
                                const NewTokens<kvType>& added, int firstBlock, int pair, int round) {
  constexpr int step = queries == 1 ? 16 : 32 / queries > 8 ? 8 : 32 / queries;
  const int lane = threadIndex() % 32, size = blocks.layout.size, token = lane * 2, index = pair * 2 + token / tokensOfBlock;
  const bool exists = index < blocks.count;
  const float* const scales = blocks.layout.keyScales(blocks.block(exists ? index : pair * 2)) + token % tokensOfBlock;
  const int firstPosition = (firstBlock + pair * 2) * tokensOfBlock, position = firstPosition + token;
  float scale[2] = {};
  if (kvType == kvByte) {
    scale[0] = added.scaleAt(position, 0, scales);
    scale[1] = added.scaleAt(position + 1, 0, scales + 1);
  }
  float sums[queries][2] = {};
  for (int first = 0; first < size; first += blocks.keyValues, round++) {
    blocks.wait();
    syncWarp();
    const int end = size - first < blocks.keyValues ? size - first : blocks.keyValues;
    uint8_t* const stage = blocks.stage(threadIndex() / 32, round);
    if (added.count > 0) added.patchKeys(stage, firstPosition, first, end);
    const uint8_t* const keys = stage + token * blocks.element;
    const float* const from = shared.queries + first * queries;
    int d = 0;
    for (; d + step <= end; d += step) addProducts<kvType, queries, step>(from + d * queries, keys + d * blocks.keyBytes, sums);
#pragma unroll 1
    for (; d < end; d++) addProducts<kvType, queries, 1>(from + d * queries, keys + d * blocks.keyBytes, sums);
    syncWarp();
    blocks.copy(round + blocks.depth);
  }
  QueryFloats<queries> best;
#pragma unroll
  for (int e = 0; e < 2; e++) {
    QueryFloats<queries> scores;
#pragma unroll
    for (int q = 0; q < queries; q++) {
      const Seen seen = shared.seen[q];
      const bool isSeen = position + e >= seen.first && position + e <= seen.last;
      scores.of[q] = isSeen ? scoreOf<kvType>(args, sums[q][e], scale + e) : leastScore;
      best.of[q] = e == 0 || scores.of[q] > best.of[q] ? scores.of[q] : best.of[q];
    }
    if (exists) scores.store(shared.weights + (pair * 2 * tokensOfBlock + token + e) * queries);
  }
#pragma unroll
  for (int half = 8; half > 0; half /= 2) {
#pragma unroll
    for (int q = 0; q < queries; q++) {
      const float other = shuffleXor(best.of[q], half);
      best.of[q] = other > best.of[q] ? other : best.of[q];
    }
  }
  if (exists && lane % 16 == 0) best.store(shared.maxima + index * queries);
}

/** What a lane adds up in a unit: two values of some queries. */
template <int queries>
struct ValueSums {
  static constexpr int values = 2;
  int query, value;
  bool exists;
  float sums[queries][values];

  template <int kvType>
  CHAIRLIFT_METHOD void start(const HeadLayout<kvType>& layout, int queryCount, int unit) {
    const int slices = (layout.padded + 32 * values - 1) / (32 * values);
    query = unit / slices * queries;
    value = (unit % slices * 32 + threadIndex() % 32) * values;
    exists = query < queryCount && value < layout.padded;
    if (!exists) query = value = 0;
    for (int q = 0; q < queries; q++) {
      for (int i = 0; i < values; i++) sums[q][i] = 0;
    }
  }
  /** Adds the tokens of a stage in order; where not all are seen, those that are not are left out. `stride`: queries of the piece. */
  template <int kvType, int stride, bool isWhole>
  CHAIRLIFT_METHOD void add(const HeadLayout<kvType>& layout, const FewShared& shared, const uint8_t* stage, int firstToken) {
    const int rowBytes = layout.padded * layout.element;
    const uint8_t* const from = stage + value * layout.element;
    const float* const weights = shared.weights + firstToken * stride + query;
    if (firstToken % tokensOfBlock == 0) {
      const float* const decays = shared.decays + firstToken / tokensOfBlock * stride + query;
#pragma unroll
      for (int q = 0; q < queries; q++) {
        const float decay = decays[q];
#pragma unroll
        for (int i = 0; i < values; i++) sums[q][i] = sums[q][i] * decay;
      }
    }
    constexpr int step = 16;
#pragma unroll
    for (int first = 0; first < StagedBlocks<kvType>::valueTokens; first += step) {
      uint32_t words[step];
      float own[step][queries];
#pragma unroll
      for (int t = 0; t < step; t++) {
        words[t] = loadPair<kvType>(from + (first + t) * rowBytes);
        if (queries == 2) {
          const Floats2 two = *(const Floats2*)(weights + (first + t) * stride);
          own[t][0] = two.x, own[t][queries - 1] = two.y;
        } else if (t % 4 == 0) {
          // A single query has no others between its weights.
          const Floats4 four = *(const Floats4*)(weights + first + t);
          own[t][0] = four.x, own[t + 1][0] = four.y, own[t + 2][0] = four.z, own[t + 3][0] = four.w;
        }
      }
#pragma unroll
      for (int t = 0; t < step; t++) {
#pragma unroll
        for (int q = 0; q < queries; q++) {
#pragma unroll
          for (int i = 0; i < values; i++) {
            const float more = fusedMultiplyAdd(own[t][q], kvOf<kvType>(words[t], i), sums[q][i]);
            sums[q][i] = isWhole || own[t][q] != unseenWeight ? more : sums[q][i];
          }
        }
      }
    }
  }
  template <int kvType>
  CHAIRLIFT_METHOD void finish(const AttentionArgs& args, const AttentionPiece& piece, int kvHead, const HeadLayout<kvType>& layout,
                               const FewShared& shared, int segment) const {
    if (!exists) return;
    const bool isFirst = segment == piece.firstSegment, isLast = segment + 1 == piece.endSegment;
#pragma unroll
    for (int q = 0; q < queries; q++) {
      if (query + q >= piece.queries) continue;
      if (piece.parts > 1) {
        float* const state = stateOf(args, piece, kvHead, segment, query + q, layout.padded) + stateHead + value;
        for (int i = 0; i < values; i++) state[i] = sums[q][i];
        continue;
      }
      // The output holds what is joined so far.
      float* const output = outputOf(args, piece, kvHead, query + q, layout.valueSize) + value;
      const JoinFactors factors = shared.factors[query + q];
      const float inverse = isLast ? divided(1.0f, shared.joined[query + q].total) : 1.0f;
#pragma unroll
      for (int i = 0; i < values; i++) {
        if (value + i >= layout.valueSize) continue;
        const float joined = fusedMultiplyAdd(sums[q][i], factors.own, (isFirst ? 0.0f : output[i]) * factors.before);
        output[i] = isLast ? joined * inverse : joined;
      }
    }
  }
};

/** The largest score and the sum of the weights of a segment, of one query: leaves them, or joins them to those before. */
template <int kvType>
CHAIRLIFT_DEVICE void finishWeights(const AttentionArgs& args, const AttentionPiece& piece, int kvHead,
                                    const HeadLayout<kvType>& layout, const FewShared& shared, int count, int segment, int query) {
  const int stride = shared.stride;
  float largest = leastScore, total = 0;
#pragma unroll 4
  for (int i = 0; i < count; i++) {
    const float best = shared.maxima[i * stride + query];
    largest = best > largest ? best : largest;
    total = total * shared.decays[i * stride + query] + shared.added[i * stride + query];
  }
  if (piece.parts > 1) {
    float* const state = stateOf(args, piece, kvHead, segment, query, layout.padded);
    state[0] = largest;
    state[1] = total;
  } else {
    shared.factors[query] = join(shared.joined[query], {largest, total});
  }
}

/** Adds the weighted values of a segment in rounds, in each of which every warp has copied some tokens. */
template <int kvType, int queries, int units>
CHAIRLIFT_DEVICE void addValues(const AttentionArgs& args, const AttentionPiece& piece, int kvHead,
                                const StagedBlocks<kvType>& blocks, const FewShared& shared, const NewTokens<kvType>& added,
                                Seen seenByAll, int segment, int firstBlock) {
  const int warp = threadIndex() / 32, lane = threadIndex() % 32, warps = threadCount() / 32;
  const int items = blocks.valueItems(), rounds = (items + warps - 1) / warps;
  ValueSums<queries == 1 ? 1 : 2> sums[units];
#pragma unroll
  for (int u = 0; u < units; u++) sums[u].start(blocks.layout, piece.queries, warp + u * warps);
  for (int round = 0; round < rounds; round++) {
    blocks.wait();
    if (added.count > 0) {
      syncWarp();
      const int own = firstBlock * tokensOfBlock + (round * warps + warp) * blocks.valueTokens;
      added.patchValues(blocks.stage(warp, round), own, blocks.layout.padded);
    }
    syncBlock();
    // The last warp has the least values to add.
    if (round == 0 && warp == warps - 1 && lane < piece.queries) {
      finishWeights(args, piece, kvHead, blocks.layout, shared, blocks.count, segment, lane);
    }
    for (int item = round * warps; item < (round + 1) * warps && item < items; item++) {
      const int token = item * blocks.valueTokens, first = (firstBlock + token / tokensOfBlock) * tokensOfBlock;
      const bool isWhole = first >= seenByAll.first && first + tokensOfBlock - 1 <= seenByAll.last;
      const uint8_t* const stage = blocks.stage(item % warps, round);
#pragma unroll
      for (int u = 0; u < units; u++) {
        if (!sums[u].exists) continue;
        if (isWhole) sums[u].template add<kvType, queries, true>(blocks.layout, shared, stage, token);
        else sums[u].template add<kvType, queries, false>(blocks.layout, shared, stage, token);
      }
    }
    if (round + blocks.depth < rounds) syncBlock();
    blocks.copy(round + blocks.depth);
  }
  // What the last warp made is there.
  syncBlock();
#pragma unroll
  for (int u = 0; u < units; u++) sums[u].finish(args, piece, kvHead, blocks.layout, shared, segment);
}

/** The values of queries that a warp copies to shared memory: those of up to two queries, read before and written later. */
struct OwnQueries {
  static constexpr int most = 128 / 32;
  float values[2][most] = {};

  CHAIRLIFT_METHOD void load(const AttentionArgs& args, const AttentionPiece& piece, int kvHead, int size) {
    const int lane = threadIndex() % 32;
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const int q = threadIndex() / 32 + i * (threadCount() / 32);
      if (q >= piece.queries) break;
      const QueryPlace place = queryPlace(args, piece, kvHead, q);
      const float* const from = args.queries + int64_t(place.row) * args.queryStride + int64_t(place.head) * size;
#pragma unroll
      for (int k = 0; k < most; k++) {
        if (lane + 32 * k < size) values[i][k] = from[lane + 32 * k];
      }
    }
  }
  CHAIRLIFT_METHOD void store(const FewShared& shared, int size) const {
    const int lane = threadIndex() % 32;
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const int q = threadIndex() / 32 + i * (threadCount() / 32);
      if (q >= shared.stride) break;
#pragma unroll
      for (int k = 0; k < most; k++) {
        if (lane + 32 * k < size) shared.queries[(lane + 32 * k) * shared.stride + q] = values[i][k];
      }
    }
  }
};

/** Places the queries of a piece and the new tokens that it sees, and stores those of rows whose first query it has. */
template <int kvType>
CHAIRLIFT_DEVICE void placeRows(const AttentionArgs& args, const AttentionPiece& piece, int kvHead, const HeadLayout<kvType>& layout,
                                const FewShared& shared, const NewTokens<kvType>& added) {
  const int warps = threadCount() / 32, lane = threadIndex() % 32, group = args.headCount / args.kvHeadCount;
  // The last warps have the least keys to copy.
  for (int task = warps - 1 - threadIndex() / 32; task < piece.queries + added.count; task += warps) {
    if (task < piece.queries) {
      const QueryPlace place = queryPlace(args, piece, kvHead, task);
      float* const own = added.heads + task * layout.keyRow;
      placeQuery(args.place, place.row, piece.position + place.row - piece.firstRow, place.head, own);
      for (int d = lane; d < layout.size; d += 32) shared.queries[d * shared.stride + task] = own[d];
      continue;
    }
    const int i = task - piece.queries, position = added.position + i, row = position - piece.position;
    float* const key = added.heads + (piece.queries + 2 * i) * layout.keyRow;
    float* const value = key + layout.keyRow;
    placeKeys(args.place, piece.firstRow + row, position, kvHead, key, value);
    const float keyScale = storeHead(kvType, key, layout.size, added.keys(i), 1);
    const float valueScale = storeHead(kvType, value, layout.size, added.values(i), 1);
    for (int d = layout.size * layout.element + lane; d < layout.padded * layout.element; d += 32) added.values(i)[d] = 0;
    if (lane == 0) added.scales[2 * i] = keyScale, added.scales[2 * i + 1] = valueScale;
    syncWarp();
    if (row * group < piece.firstQuery || row * group >= piece.firstQuery + piece.queries) continue;
    const int block = args.tables[piece.tableStart + position / tokensOfBlock];
    added.store(layout, i, args.place.kv + block * args.blockStride + kvHead * args.headBytes);
  }
}

/** `queries`: those of the piece, padded. `isFirst`: no kernel before has been waited for; only what hosts write is read before. */
template <int kvType, int queries>
CHAIRLIFT_DEVICE void attendStaged(const AttentionArgs& args, const AttentionPiece& piece, int kvHead, bool isFirst) {
  const HeadLayout<kvType> layout(args);
  const int thread = threadIndex(), warp = thread / 32, warps = threadCount() / 32;
  const FewShared shared(queries, layout.keyRow);
  // Later rows see no less at the end, and no more at the start.
  const Seen front = seenBy(args, piece, 0), back = seenBy(args, piece, piece.queries - 1);
  const Seen seenByAny{front.first, back.last}, seenByAll{back.first, front.last};
  StagedBlocks<kvType> blocks{layout, args.kv + int64_t(kvHead) * args.headBytes, args.blockStride, shared.table, 0, shared.stages,
                              args.stagesOfWarp};
  NewTokens<kvType> added(shared.stages + warps * args.stagesOfWarp * stageBytesOfFew, queries, layout.keyRow);
  if (args.places && args.place.stores) {
    // Those of the sequence that the piece sees in its segments.
    const int from = piece.firstSegment * tokensOfSegment, end = piece.endSegment * tokensOfSegment;
    const int last = back.last < end ? back.last : end - 1, until = last < piece.end ? last + 1 : piece.end;
    added.position = piece.position > from ? piece.position : from;
    added.count = until > added.position ? until - added.position : 0;
  }
  if (thread < queries) shared.seen[thread] = seenBy(args, piece, thread);
  if (thread < piece.queries) shared.joined[thread] = startState(args, queryPlace(args, piece, kvHead, thread).head);
  for (int segment = piece.firstSegment; segment < piece.endSegment; segment++) {
    const BlockRange range = blocksSeen(seenByAny, segment, segment + 1);
    blocks.count = range.end - range.first;
    if (thread < blocks.count) shared.table[thread] = args.tables[piece.tableStart + range.first + thread];
    syncBlock();
    if (isFirst && segment == piece.firstSegment) waitForPrevious();
    OwnQueries own;
    if (segment == piece.firstSegment) {
      if (args.places) placeRows<kvType>(args, piece, kvHead, layout, shared, added);
      else own.load(args, piece, kvHead, layout.size);
    }
    int round = -blocks.keyItems();
    for (int i = 0; i < blocks.depth; i++) blocks.copy(round + i);
    if (segment == piece.firstSegment) {
      if (!args.places) own.store(shared, layout.size);
      syncBlock();
    }
    for (int pair = warp; pair * 2 < blocks.count; pair += warps, round += blocks.keyItemsOfPair()) {
      scorePair<kvType, queries>(args, blocks, shared, added, range.first, pair, round);
    }
    syncBlock();
    weightsOfSegment<kvType, queries>(args, layout, shared, blocks.base, shared.table, {0, blocks.count}, range.first, 0,
                                      [&](int position, const float* stored) { return added.scaleAt(position, 1, stored); });
    const int units = (layout.padded + 63) / 64 * ((queries + 1) / 2);
    if (queries <= 4 || units <= warps) {
      addValues<kvType, queries, 1>(args, piece, kvHead, blocks, shared, added, seenByAll, segment, range.first);
    } else {
      addValues<kvType, queries, 2>(args, piece, kvHead, blocks, shared, added, seenByAll, segment, range.first);
    }
    // The next segment's copies and scores go where this one's were.
    waitForCopies<0>();
    syncBlock();
  }
}

/** What all blocks together prefetch: a part of the L2 cache. */
constexpr int prefetchedBytes = 16 << 20;

/**
 * Brings the first keys and values of a piece nearer while kernels before it are at work: only hosts write pieces and tables, and
 * what a prefetch finds is not read yet.
 */
CHAIRLIFT_DEVICE void prefetchPiece(const AttentionArgs& args, const AttentionPiece& piece, int kvHead, int pieces) {
  constexpr int line = 128;
  const int first = seenBy(args, piece, 0).first / tokensOfBlock;
  const int end = seenBy(args, piece, piece.queries - 1).last / tokensOfBlock + 1;
  const int from = first > piece.firstSegment * blocksOfSegment ? first : piece.firstSegment * blocksOfSegment;
  const int to = end < (piece.firstSegment + 1) * blocksOfSegment ? end : (piece.firstSegment + 1) * blocksOfSegment;
  const int linesOfBlock = int((args.headBytes + line - 1) / line), most = prefetchedBytes / line / pieces;
  const int all = (to - from) * linesOfBlock, lines = all < most ? all : most;
  for (int i = threadIndex(); i < lines; i += threadCount()) {
    const int64_t block = args.tables[piece.tableStart + from + i / linesOfBlock];
    prefetch(args.kv + block * args.blockStride + int64_t(kvHead) * args.headBytes + i % linesOfBlock * line);
  }
}

/** Where this was the last part, joins all. */
template <int kvType>
CHAIRLIFT_DEVICE void joinParts(const AttentionArgs& args, const AttentionPiece& piece, int kvHead) {
  const HeadLayout<kvType> layout(args);
  const FewShared shared(1, layout.keyRow);
  if (!isLastPart(args, piece, kvHead, (int*)shared.queries)) return;
  syncBlock();
  // Of all that a block has, the weights are the most.
  joinStates(args, piece, kvHead, layout.valueSize, layout.padded, shared.queries, tokensOfSegment * piece.queries);
}

/** Blocks take pieces in turn, with all KV heads of each. `isLarge`: more than 128 values of a head, or keys that are rows. */
template <int kvType, bool isLarge>
CHAIRLIFT_DEVICE void attendFew(const AttentionArgs& args) {
  const int count = *args.pieceCount * args.kvHeadCount, blocks = blocksX();
  int i = blockX(), kvHead = i % args.kvHeadCount;
  // A copy, so that writes to memory do not make it read again.
  AttentionPiece piece{};
  if (i < count) {
    piece = args.pieces[i / args.kvHeadCount];
    prefetchPiece(args, piece, kvHead, count < blocks ? count : blocks);
  }
  if (isLarge || i >= count) waitForPrevious();
  startNext();
  bool isFirst = true;
  while (i < count) {
    if (isLarge) attendLarge<kvType>(args, piece, kvHead);
    else if (piece.queries == 1) attendStaged<kvType, 1>(args, piece, kvHead, isFirst);
    else if (piece.queries == 2) attendStaged<kvType, 2>(args, piece, kvHead, isFirst);
    else if (piece.queries <= 4) attendStaged<kvType, 4>(args, piece, kvHead, isFirst);
    else attendStaged<kvType, fewQueries>(args, piece, kvHead, isFirst);
    isFirst = false;
    if (piece.parts > 1) joinParts<kvType>(args, piece, kvHead);
    i += blocks;
    if (i >= count) break;
    kvHead = i % args.kvHeadCount;
    piece = args.pieces[i / args.kvHeadCount];
    syncBlock();
  }
}

}  // namespace
