// Attention of a few rows with heads of at most 128 values. Time is mostly latency, so all keys and values that fit are on their
// way to shared memory at once: a warp copies them to stages of its own, in a ring. Code is short, because it is read from memory too:
// loops are not unrolled further than latency asks for. Include after attention-few.h.
#pragma once

namespace {

/**
 * Keys and values of a segment on their way through stages, a ring of which every warp has its own. First come the keys of the
 * warp's pairs of blocks, some values of both blocks at a time, [value][token of the pair]; then values of some tokens, [token][value].
 */
template <int kvType>
struct StagedBlocks {
  static constexpr int element = HeadLayout<kvType>::element;
  static constexpr int keyValues = 64 / element, valueTokens = 32 / element;
  // Of a value's keys, and of a token's values.
  static constexpr int keyBytes = 2 * tokensOfBlock * element, rowBytes = mostStagedValues * element;
  const HeadLayout<kvType>& layout;
  const uint8_t* base;
  int64_t blockStride;
  // The blocks of the segment, in shared memory.
  const int32_t* table;
  uint8_t* stages;
  // Stages of a warp: 2 or 4. Warps: 4 or 8.
  int depth, warps;
  // Blocks of the segment.
  int count = 0;
  // What this warp copies next, and to which stage.
  int pair = 0, first = 0, token = 0, next = 0;

  CHAIRLIFT_METHOD StagedBlocks(const AttentionArgs& args, int kvHead, const HeadLayout<kvType>& itsLayout, const FewShared& shared)
      : layout(itsLayout),
        base(args.kv + int64_t(kvHead) * args.headBytes),
        blockStride(args.blockStride),
        table(shared.table),
        stages(shared.stages),
        depth(args.stagesOfWarp),
        warps(threadCount() / 32) {}

  CHAIRLIFT_METHOD const uint8_t* block(int index) const { return base + int64_t(table[index]) * blockStride; }
  /** Stages of all warps are next to each other, so that tokens of a round of values are in order. */
  CHAIRLIFT_METHOD uint8_t* stage(int index, int warp) const {
    return stages + ((index & (depth - 1)) * warps + warp) * stageBytesOfFew;
  }
  /** Starts a segment; gives the stage of the first keys. Values start with the first stage of all. */
  CHAIRLIFT_METHOD int start(int itsCount) {
    const int warp = threadIndex() / 32, pairs = (itsCount + 1) / 2;
    const int own = (pairs + warps - 1 - warp) >> (warps == 8 ? 3 : 2);
    count = itsCount;
    pair = warp;
    first = 0;
    token = warp * valueTokens;
    next = -own * ((layout.size + keyValues - 1) / keyValues);
    const int firstStage = next;
#pragma unroll 1
    for (int i = 0; i < depth; i++) copyNext();
    return firstStage;
  }
  /** A group of copies, which is empty at the end. */
  CHAIRLIFT_METHOD void copyNext() {
    const int lane = threadIndex() % 32;
    uint8_t* const to = stage(next++, threadIndex() / 32);
    if (2 * pair < count) {
      constexpr int vectors = keyBytes / 16, own = vectors / 2;
      const int index = 2 * pair + lane % vectors / own, end = layout.size - first;
      // The second of a pair may be missing.
      if (index < count) {
        const uint8_t* const from = block(index) + first * keyBytes / 2 + lane % own * 16;
#pragma unroll 2
        for (int d = lane / vectors; d < keyValues; d += 32 / vectors) {
          if (d < end) copyToShared(to + d * keyBytes + lane % vectors * 16, from + d * keyBytes / 2);
        }
      }
      first += keyValues;
      if (first >= layout.size) first = 0, pair += warps;
    } else if (token < count * tokensOfBlock) {
      constexpr int vectors = rowBytes / 16;
      const int bytes = layout.padded * element, at = lane % vectors * 16;
      if (at < bytes) {
        const uint8_t* from = block(token / tokensOfBlock) + layout.valuesAt() + (token % tokensOfBlock + lane / vectors) * bytes + at;
#pragma unroll 2
        for (int t = lane / vectors; t < valueTokens; t += 32 / vectors) {
          copyToShared(to + t * rowBytes + at, from);
          from += 32 / vectors * bytes;
        }
      }
      token += warps * valueTokens;
    }
    commitCopies();
  }
  /** Waits for the oldest copies of this warp that it has not waited for. */
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
        copyElement(stage + (token * mostStagedValues + d) * element, values(i) + d * element);
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

/** Some values of all queries and of the keys of two tokens, as they are in shared memory. */
template <int kvType, int queries, int values>
struct KeyOperands {
  uint32_t pairs[values];
  QueryFloats<queries * values == 1 ? 1 : queries * values == 2 ? 2 : 4> left[(queries * values + 3) / 4];

  CHAIRLIFT_METHOD void load(const float* from, const uint8_t* keys) {
#pragma unroll
    for (int i = 0; i < values; i++) pairs[i] = loadPair<kvType>(keys + i * StagedBlocks<kvType>::keyBytes);
#pragma unroll
    for (int i = 0; i < queries * values; i += 4) left[i / 4].load(from + i);
  }
  CHAIRLIFT_METHOD void addTo(float (&sums)[queries][2]) const {
#pragma unroll
    for (int i = 0; i < values; i++) {
      const float first = kvOf<kvType>(pairs[i], 0), second = kvOf<kvType>(pairs[i], 1);
#pragma unroll
      for (int q = 0; q < queries; q++) {
        const float own = left[(i * queries + q) / 4].of[(i * queries + q) % 4];
        sums[q][0] = fusedMultiplyAdd(own, first, sums[q][0]);
        sums[q][1] = fusedMultiplyAdd(own, second, sums[q][1]);
      }
    }
  }
};

/** Adds the products of a stage. What is multiplied next is read before, so that nothing waits for shared memory. */
template <int kvType, int queries>
CHAIRLIFT_DEVICE void addKeys(const float* from, const uint8_t* keys, int size, float (&sums)[queries][2]) {
  constexpr int values = queries <= 2 ? 8 : 4, keyBytes = StagedBlocks<kvType>::keyBytes;
  int d = 0;
  if (size >= 2 * values) {
    KeyOperands<kvType, queries, values> even, odd;
    even.load(from, keys);
#pragma unroll 1
    for (; d + 2 * values <= size; d += 2 * values) {
      odd.load(from + (d + values) * queries, keys + (d + values) * keyBytes);
      even.addTo(sums);
      const int next = d + 3 * values <= size ? d + 2 * values : 0;
      even.load(from + next * queries, keys + next * keyBytes);
      odd.addTo(sums);
    }
  }
#pragma unroll 1
  for (; d < size; d++) {
    KeyOperands<kvType, queries, 1> own;
    own.load(from + d * queries, keys + d * keyBytes);
    own.addTo(sums);
  }
}

/** Scores of all queries and a pair of blocks, whose keys are in stages from `stage` on: a lane has two tokens. */
template <int kvType, int queries>
CHAIRLIFT_DEVICE void scorePair(const AttentionArgs& args, StagedBlocks<kvType>& blocks, const FewShared& shared,
                                const NewTokens<kvType>& added, int firstBlock, int pair, int& stage) {
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
  for (int first = 0; first < size; first += blocks.keyValues) {
    blocks.wait();
    syncWarp();
    const int end = size - first < blocks.keyValues ? size - first : blocks.keyValues;
    uint8_t* const keys = blocks.stage(stage++, threadIndex() / 32);
    if (added.count > 0) added.patchKeys(keys, firstPosition, first, end);
    addKeys<kvType, queries>(shared.queries + first * queries, keys + token * blocks.element, end, sums);
    syncWarp();
    blocks.copyNext();
  }
  float* const at = shared.weights + (pair * 2 * tokensOfBlock + token) * queries;
  if (exists) {
#pragma unroll
    for (int e = 0; e < 2; e++) {
      QueryFloats<queries> scores;
#pragma unroll
      for (int q = 0; q < queries; q++) scores.of[q] = scaledScore<kvType>(args, sums[q][e], scale[e]);
      scores.store(at + e * queries);
    }
    if (args.softcap > 0) capScores(args, at, 2 * queries);
  }
  QueryFloats<queries> best;
#pragma unroll
  for (int q = 0; q < queries; q++) best.of[q] = leastScore;
#pragma unroll 1
  for (int e = 0; e < 2 && exists; e++) {
    QueryFloats<queries> scores;
    scores.load(at + e * queries);
#pragma unroll
    for (int q = 0; q < queries; q++) {
      const Seen seen = shared.seen[q];
      const bool counts = position + e >= seen.first && position + e <= seen.last && scores.of[q] > best.of[q];
      best.of[q] = counts ? scores.of[q] : best.of[q];
    }
  }
#pragma unroll 1
  for (int half = 8; half > 0; half /= 2) {
#pragma unroll
    for (int q = 0; q < queries; q++) {
      const float other = shuffleXor(best.of[q], half);
      best.of[q] = other > best.of[q] ? other : best.of[q];
    }
  }
  if (exists && lane % 16 == 0) best.store(shared.maxima + index * queries);
}

/** Two values and the weights of some tokens, as they are in shared memory; `stride`: queries of the piece. */
template <int kvType, int queries, int stride, int tokens>
struct ValueOperands {
  uint32_t words[tokens];
  float weights[tokens][queries];

  CHAIRLIFT_METHOD void load(const uint8_t* values, const float* from) {
#pragma unroll
    for (int t = 0; t < tokens; t++) {
      words[t] = loadPair<kvType>(values + t * StagedBlocks<kvType>::rowBytes);
      if (queries == 2) {
        const Floats2 two = *(const Floats2*)(from + t * stride);
        weights[t][0] = two.x, weights[t][queries - 1] = two.y;
      } else if (t % 4 == 0) {
        // A single query has no others between its weights.
        const Floats4 four = *(const Floats4*)(from + t);
        weights[t][0] = four.x, weights[t + 1][0] = four.y, weights[t + 2][0] = four.z, weights[t + 3][0] = four.w;
      }
    }
  }
  /** Tokens that are not seen are left out. */
  template <bool isWhole>
  CHAIRLIFT_METHOD void addTo(float (&sums)[queries][2]) const {
#pragma unroll
    for (int t = 0; t < tokens; t++) {
#pragma unroll
      for (int q = 0; q < queries; q++) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
          const float more = fusedMultiplyAdd(weights[t][q], kvOf<kvType>(words[t], i), sums[q][i]);
          sums[q][i] = isWhole || weights[t][q] != unseenWeight ? more : sums[q][i];
        }
      }
    }
  }
};

/** What a lane adds up in a unit: two values of some queries. */
template <int kvType, int queries, int stride>
struct ValueSums {
  static constexpr int rowBytes = StagedBlocks<kvType>::rowBytes;
  int query, value;
  bool exists;
  float sums[queries][2];

  CHAIRLIFT_METHOD void start(const HeadLayout<kvType>& layout, int queryCount, int unit) {
    const bool isNarrow = layout.padded <= 64;
    query = (isNarrow ? unit : unit / 2) * queries;
    value = ((isNarrow ? 0 : unit % 2 * 32) + threadIndex() % 32) * 2;
    exists = query < queryCount && value < layout.padded;
    if (!exists) query = value = 0;
    for (int q = 0; q < queries; q++) sums[q][0] = sums[q][1] = 0;
  }
  /** Adds whole blocks in the order of tokens, the first of which is `token` of the segment; `isWhole(token)`: all see its block. */
  template <class IsWhole>
  CHAIRLIFT_METHOD void add(const FewShared& shared, const uint8_t* rows, int token, int tokens, const IsWhole& isWhole) {
    constexpr int some = 8;
    const uint8_t* values = rows + value * HeadLayout<kvType>::element;
    const float* weights = shared.weights + token * stride + query;
    ValueOperands<kvType, queries, stride, some> even, odd;
    even.load(values, weights);
#pragma unroll 1
    for (int end = token + tokens; token < end; token += tokensOfBlock) {
      const float* const decays = shared.decays + token / tokensOfBlock * stride + query;
#pragma unroll
      for (int q = 0; q < queries; q++) {
        const float decay = decays[q];
        sums[q][0] = sums[q][0] * decay;
        sums[q][1] = sums[q][1] * decay;
      }
      const bool all = isWhole(token);
#pragma unroll 1
      for (int t = 0; t < tokensOfBlock; t += 2 * some) {
        odd.load(values + some * rowBytes, weights + some * stride);
        addSome(even, all);
        const bool isEnd = token + tokensOfBlock >= end && t + 2 * some >= tokensOfBlock;
        values += isEnd ? 0 : 2 * some * rowBytes;
        weights += isEnd ? 0 : 2 * some * stride;
        even.load(values, weights);
        addSome(odd, all);
      }
    }
  }
  CHAIRLIFT_METHOD void finish(const AttentionArgs& args, const AttentionPiece& piece, int kvHead, const HeadLayout<kvType>& layout,
                               const FewShared& shared, int segment) const {
    if (!exists) return;
    const bool isFirst = segment == piece.firstSegment, isLast = segment + 1 == piece.endSegment;
#pragma unroll
    for (int q = 0; q < queries; q++) {
      if (query + q >= piece.queries) continue;
      if (piece.parts > 1) {
        float* const state = stateOf(args, piece, kvHead, segment, query + q, layout.padded) + stateHead + value;
        *(Floats2*)state = {sums[q][0], sums[q][1]};
        continue;
      }
      // The output holds what is joined so far.
      float* const output = args.outputs + shared.outputs[query + q] + value;
      const JoinFactors factors = shared.factors[query + q];
#pragma unroll
      for (int i = 0; i < 2; i++) {
        if (value + i >= layout.valueSize) continue;
        const float joined = fusedMultiplyAdd(sums[q][i], factors.own, (isFirst ? 0.0f : output[i]) * factors.before);
        output[i] = isLast ? joined * shared.inverses[query + q] : joined;
      }
    }
  }

 private:
  template <class Operands>
  CHAIRLIFT_METHOD void addSome(const Operands& operands, bool isWhole) {
    if (isWhole) operands.template addTo<true>(sums);
    else operands.template addTo<false>(sums);
  }
};

/** The largest score and the sum of the weights of a segment, of one query: leaves them, or joins them to those before. */
template <int kvType>
CHAIRLIFT_DEVICE void finishWeights(const AttentionArgs& args, const AttentionPiece& piece, int kvHead,
                                    const HeadLayout<kvType>& layout, const FewShared& shared, int count, int segment, int query) {
  const int stride = shared.stride;
  float largest = leastScore, total = 0;
#pragma unroll 1
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
    shared.inverses[query] = divided(1.0f, shared.joined[query].total);
  }
}

/** Adds the weighted values of a segment in rounds, in each of which every warp has copied some tokens. */
template <int kvType, int queries, int units>
CHAIRLIFT_DEVICE void addValues(const AttentionArgs& args, const AttentionPiece& piece, int kvHead, StagedBlocks<kvType>& blocks,
                                const FewShared& shared, const NewTokens<kvType>& added, Seen seenByAll, int segment,
                                int firstBlock) {
  const int warp = threadIndex() / 32, lane = threadIndex() % 32, warps = blocks.warps, firstPosition = firstBlock * tokensOfBlock;
  const int total = blocks.count * tokensOfBlock, most = warps * blocks.valueTokens;
  ValueSums<kvType, queries == 1 ? 1 : 2, queries> sums[units];
#pragma unroll
  for (int u = 0; u < units; u++) sums[u].start(blocks.layout, piece.queries, warp + u * warps);
  const auto isWhole = [&](int token) {
    return firstPosition + token >= seenByAll.first && firstPosition + token + tokensOfBlock - 1 <= seenByAll.last;
  };
  for (int round = 0, token = 0; token < total; round++, token += most) {
    blocks.wait();
    if (added.count > 0) {
      syncWarp();
      added.patchValues(blocks.stage(round, warp), firstPosition + token + warp * blocks.valueTokens, blocks.layout.padded);
    }
    syncBlock();
    // The last warp has the least values to add.
    if (round == 0 && warp == warps - 1 && lane < piece.queries) {
      finishWeights(args, piece, kvHead, blocks.layout, shared, blocks.count, segment, lane);
    }
    const int tokens = total - token < most ? total - token : most;
#pragma unroll
    for (int u = 0; u < units; u++) {
      if (sums[u].exists) sums[u].add(shared, blocks.stage(round, 0), token, tokens, isWhole);
    }
    if (token + blocks.depth * most < total) syncBlock();
    blocks.copyNext();
  }
  // What the last warp made is there.
  syncBlock();
#pragma unroll
  for (int u = 0; u < units; u++) sums[u].finish(args, piece, kvHead, blocks.layout, shared, segment);
}

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

/** Waits for the kernel before, and brings queries and new tokens to shared memory. */
template <int kvType>
CHAIRLIFT_DEVICE NewTokens<kvType> prepareStaged(const AttentionArgs& args, const AttentionPiece& piece, int kvHead,
                                                 const HeadLayout<kvType>& layout, const FewShared& shared, bool isFirst) {
  const int thread = threadIndex(), warps = threadCount() / 32, lane = thread % 32;
  NewTokens<kvType> added(shared.stages + warps * args.stagesOfWarp * stageBytesOfFew, shared.stride, layout.keyRow);
  if (args.places && args.place.stores) {
    // Those of the sequence that the piece sees in its segments.
    const int from = piece.firstSegment * tokensOfSegment, end = piece.endSegment * tokensOfSegment;
    const int seen = seenBy(args, piece, piece.queries - 1).last, last = seen < end ? seen : end - 1;
    const int until = last < piece.end ? last + 1 : piece.end;
    added.position = piece.position > from ? piece.position : from;
    added.count = until > added.position ? until - added.position : 0;
  }
  if (thread < shared.stride) shared.seen[thread] = seenBy(args, piece, thread);
  if (thread < piece.queries) {
    const QueryPlace place = queryPlace(args, piece, kvHead, thread);
    shared.joined[thread] = startState(args, place.head);
    shared.outputs[thread] = int64_t(place.row) * args.outputStride + int64_t(place.head) * layout.valueSize;
  }
  if (isFirst) waitForPrevious();
  if (args.places) {
    placeRows<kvType>(args, piece, kvHead, layout, shared, added);
    return added;
  }
  for (int q = thread / 32; q < piece.queries; q += warps) {
    const QueryPlace place = queryPlace(args, piece, kvHead, q);
    const float* const from = args.queries + int64_t(place.row) * args.queryStride + int64_t(place.head) * layout.size;
#pragma unroll 4
    for (int d = lane; d < layout.size; d += 32) shared.queries[d * shared.stride + q] = from[d];
  }
  return added;
}

/** `queries`: those of the piece, padded. */
template <int kvType, int queries>
CHAIRLIFT_DEVICE void attendStaged(const AttentionArgs& args, const AttentionPiece& piece, int kvHead,
                                   const HeadLayout<kvType>& layout, const FewShared& shared, const NewTokens<kvType>& added) {
  const int thread = threadIndex(), warp = thread / 32, warps = threadCount() / 32;
  // Later rows see no less at the end, and no more at the start.
  const Seen front = seenBy(args, piece, 0), back = seenBy(args, piece, piece.queries - 1);
  StagedBlocks<kvType> blocks(args, kvHead, layout, shared);
#pragma unroll 1
  for (int segment = piece.firstSegment; segment < piece.endSegment; segment++) {
    const BlockRange range = blocksSeen({front.first, back.last}, segment, segment + 1);
    const int count = range.end - range.first;
    if (thread < count) shared.table[thread] = args.tables[piece.tableStart + range.first + thread];
    syncBlock();
    int stage = blocks.start(count);
#pragma unroll 1
    for (int pair = warp; pair * 2 < count; pair += warps) {
      scorePair<kvType, queries>(args, blocks, shared, added, range.first, pair, stage);
    }
    syncBlock();
    weightsOfSegment<kvType, queries>(args, layout, shared, blocks.base, shared.table, {0, count}, range.first, 0,
                                      [&](int position, const float* stored) { return added.scaleAt(position, 1, stored); });
    constexpr int most = queries > 4 ? 2 : 1;
    addValues<kvType, queries, most>(args, piece, kvHead, blocks, shared, added, {back.first, front.last}, segment, range.first);
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

/** Of heads with at most 128 values; `isFirst`: no kernel before has been waited for, and only what hosts write is read before. */
template <int kvType>
CHAIRLIFT_DEVICE void attendSmall(const AttentionArgs& args, const AttentionPiece& piece, int kvHead, bool isFirst) {
  const HeadLayout<kvType> layout(args);
  const FewShared shared(piece.queries <= 2 ? piece.queries : piece.queries <= 4 ? 4 : fewQueries, layout.keyRow);
  const NewTokens<kvType> added = prepareStaged<kvType>(args, piece, kvHead, layout, shared, isFirst);
  if (piece.queries == 1) attendStaged<kvType, 1>(args, piece, kvHead, layout, shared, added);
  else if (piece.queries == 2) attendStaged<kvType, 2>(args, piece, kvHead, layout, shared, added);
  else if (piece.queries <= 4) attendStaged<kvType, 4>(args, piece, kvHead, layout, shared, added);
  else attendStaged<kvType, fewQueries>(args, piece, kvHead, layout, shared, added);
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
    else attendSmall<kvType>(args, piece, kvHead, isFirst);
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
