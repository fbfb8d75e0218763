// Attention of a few rows with heads of at most 128 values. Time is mostly latency, so all keys and values that fit are on their
// way to shared memory at once: a warp copies them to stages of its own, in a ring. Code is short, because it is read from memory too:
// loops are not unrolled further than latency asks for. Include after attention-few.h.
#pragma once

namespace {

/** One or two elements, packed. */
template <int kvType, int count>
CHAIRLIFT_DEVICE uint32_t loadSome(const uint8_t* from) {
  if (count == 2) return loadPair<kvType>(from);
  return kvType == kvHalf ? uint32_t(*(const uint16_t*)from) : uint32_t(*from);
}

/**
 * Keys and values of a segment on their way through stages, a ring of which every warp has its own. First come the keys of the
 * warp's blocks or pairs of blocks, some values at a time, [value][token]; then values of some tokens, [token][value]. `width`: tokens
 * of a lane, and blocks of a warp.
 */
template <int kvType, int width>
struct StagedBlocks {
  static constexpr int element = HeadLayout<kvType>::element, keyTokens = width * tokensOfBlock;
  // Of a value's keys, and of a token's values.
  static constexpr int keyBytes = keyTokens * element, rowBytes = mostStagedValues * element;
  static constexpr int keyValues = stageBytesOfFew / keyBytes, valueTokens = stageBytesOfFew / rowBytes;
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
  // What this warp copies next: values from `first` on of a group of blocks, or a token's; and to which stage.
  int group = 0, first = 0, token = 0, next = 0;

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
    const int warp = threadIndex() / 32, groups = (itsCount + width - 1) / width;
    const int own = (groups + warps - 1 - warp) >> (warps == 8 ? 3 : 2);
    count = itsCount;
    group = warp;
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
    if (width * group < count) {
      constexpr int vectors = keyBytes / 16, own = vectors / width;
      const int index = width * group + lane % vectors / own, end = layout.size - first;
      // The second of a pair may be missing.
      if (index < count) {
        const uint8_t* const from = block(index) + first * keyBytes / width + lane % own * 16;
#pragma unroll 2
        for (int d = lane / vectors; d < keyValues; d += 32 / vectors) {
          if (d < end) copyToShared(to + d * keyBytes + lane % vectors * 16, from + d * keyBytes / width);
        }
      }
      first += keyValues;
      if (first >= layout.size) first = 0, group += warps;
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

  /** Elements `first` … `first` + `size` - 1 of keys go to a stage with `tokens` tokens from `from` on. */
  CHAIRLIFT_METHOD void patchKeys(uint8_t* stage, int from, int tokens, int first, int size) const {
    for (int i = 0; i < count; i++) {
      const int token = position + i - from;
      if (token < 0 || token >= tokens) continue;
      for (int d = threadIndex() % 32; d < size; d += 32) {
        copyElement(stage + (d * tokens + token) * element, keys(i) + (first + d) * element);
      }
    }
    syncWarp();
  }
  /** Rows of `padded` values go to a stage with `tokens` tokens from `from` on. */
  CHAIRLIFT_METHOD void patchValues(uint8_t* stage, int from, int tokens, int padded) const {
    for (int i = 0; i < count; i++) {
      const int token = position + i - from;
      if (token < 0 || token >= tokens) continue;
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

/** Adds the products of `values` values of all queries and of the keys of `width` tokens. */
template <int kvType, int values, int queries, int width>
CHAIRLIFT_DEVICE void addProducts(const float* from, const uint8_t* keys, float (&sums)[queries][width]) {
  constexpr int total = queries * values, each = total % 4 == 0 ? 4 : total % 2 == 0 ? 2 : 1;
  uint32_t own[values];
  QueryFloats<each> left[total / each];
#pragma unroll
  for (int i = 0; i < values; i++) own[i] = loadSome<kvType, width>(keys + i * StagedBlocks<kvType, width>::keyBytes);
#pragma unroll
  for (int i = 0; i < total / each; i++) left[i].load(from + i * each);
#pragma unroll
  for (int i = 0; i < values; i++) {
#pragma unroll
    for (int t = 0; t < width; t++) {
      const float key = kvOf<kvType>(own[i], t);
#pragma unroll
      for (int q = 0; q < queries; q++) {
        const int at = i * queries + q;
        sums[q][t] = fusedMultiplyAdd(left[at / each].of[at % each], key, sums[q][t]);
      }
    }
  }
}

/** Scores of all queries and a group of blocks, whose keys are in stages from `stage` on. */
template <int kvType, int queries, int width>
CHAIRLIFT_DEVICE void scoreGroup(const AttentionArgs& args, StagedBlocks<kvType, width>& blocks, const FewShared& shared,
                                 const NewTokens<kvType>& added, int firstBlock, int group, int& stage) {
  constexpr int step = queries == 1 ? 16 : queries == 8 ? 4 : 8;
  const int lane = threadIndex() % 32, size = blocks.layout.size, token = lane * width;
  const int index = group * width + token / tokensOfBlock, inBlock = token % tokensOfBlock;
  // The second block of a pair may be missing.
  const bool exists = index < blocks.count;
  const int firstPosition = (firstBlock + group * width) * tokensOfBlock, position = firstPosition + token;
  float scale[width] = {};
  if (kvType == kvByte && exists) {
    const float* const scales = blocks.layout.keyScales(blocks.block(index)) + inBlock;
#pragma unroll
    for (int t = 0; t < width; t++) scale[t] = added.scaleAt(position + t, 0, scales + t);
  }
  float sums[queries][width] = {};
#pragma unroll 1
  for (int first = 0; first < size; first += blocks.keyValues) {
    blocks.wait();
    syncWarp();
    const int end = size - first < blocks.keyValues ? size - first : blocks.keyValues;
    uint8_t* const keys = blocks.stage(stage++, threadIndex() / 32);
    if (added.count > 0) added.patchKeys(keys, firstPosition, blocks.keyTokens, first, end);
    const uint8_t* const own = keys + token * blocks.element;
    const float* const from = shared.queries + first * queries;
    int d = 0;
#pragma unroll 1
    for (; d + step <= end; d += step) addProducts<kvType, step>(from + d * queries, own + d * blocks.keyBytes, sums);
#pragma unroll 1
    for (; d < end; d++) addProducts<kvType, 1>(from + d * queries, own + d * blocks.keyBytes, sums);
    syncWarp();
    blocks.copyNext();
  }
  float* const at = shared.weights + (group * blocks.keyTokens + token) * queries;
  if (exists) {
#pragma unroll
    for (int t = 0; t < width; t++) {
      QueryFloats<queries> scores;
#pragma unroll
      for (int q = 0; q < queries; q++) scores.of[q] = scaledScore<kvType>(args, sums[q][t], scale[t]);
      scores.store(at + t * queries);
    }
    if (args.softcap > 0) capScores(args, at, width * queries);
  }
  QueryFloats<queries> best;
#pragma unroll
  for (int q = 0; q < queries; q++) best.of[q] = leastScore;
#pragma unroll 1
  for (int t = 0; t < width && exists; t++) {
    QueryFloats<queries> scores;
    scores.load(at + t * queries);
#pragma unroll
    for (int q = 0; q < queries; q++) {
      const Seen seen = shared.seen[q];
      const bool counts = position + t >= seen.first && position + t <= seen.last && scores.of[q] > best.of[q];
      best.of[q] = counts ? scores.of[q] : best.of[q];
    }
  }
  // Those of a block are neighbours.
#pragma unroll 1
  for (int half = 16 / width; half > 0; half /= 2) {
#pragma unroll
    for (int q = 0; q < queries; q++) {
      const float other = shuffleXor(best.of[q], half);
      best.of[q] = other > best.of[q] ? other : best.of[q];
    }
  }
  if (exists && inBlock == 0) best.store(shared.maxima + index * queries);
}

/** What a lane adds up in a unit: values of some queries; `stride`: queries of the piece. */
template <int kvType, int queries, int values, int stride>
struct ValueSums {
  static constexpr int rowBytes = mostStagedValues * HeadLayout<kvType>::element;
  int query, value;
  bool exists;
  float sums[queries][values];

  CHAIRLIFT_METHOD void start(const HeadLayout<kvType>& layout, int queryCount, int unit) {
    // Slices of a head: one, two or four.
    const int slices = (layout.padded + 32 * values - 1) / (32 * values), shift = slices == 1 ? 0 : slices == 2 ? 1 : 2;
    query = (unit >> shift) * queries;
    value = ((unit & ((1 << shift) - 1)) * 32 + threadIndex() % 32) * values;
    exists = query < queryCount && value < layout.padded;
    if (!exists) query = value = 0;
    for (int q = 0; q < queries; q++) {
      for (int i = 0; i < values; i++) sums[q][i] = 0;
    }
  }
  /** Adds whole blocks in the order of tokens, the first of which is `token` of the segment; `isWhole(token)`: all see its block. */
  template <class IsWhole>
  CHAIRLIFT_METHOD void add(const FewShared& shared, const uint8_t* rows, int token, int tokens, const IsWhole& isWhole) {
    const uint8_t* from = rows + value * HeadLayout<kvType>::element;
#pragma unroll 1
    for (const int end = token + tokens; token < end; token += tokensOfBlock) {
      const float* const decays = shared.decays + token / tokensOfBlock * stride + query;
#pragma unroll
      for (int q = 0; q < queries; q++) {
        const float decay = decays[q];
#pragma unroll
        for (int i = 0; i < values; i++) sums[q][i] = sums[q][i] * decay;
      }
      if (isWhole(token)) addBlock<true>(from, shared.weights + token * stride + query);
      else addBlock<false>(from, shared.weights + token * stride + query);
      from += tokensOfBlock * rowBytes;
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
        for (int i = 0; i < values; i++) state[i] = sums[q][i];
        continue;
      }
      // The output holds what is joined so far.
      float* const output = args.outputs + shared.outputs[query + q] + value;
      const JoinFactors factors = shared.factors[query + q];
#pragma unroll
      for (int i = 0; i < values; i++) {
        if (value + i >= layout.valueSize) continue;
        const float joined = fusedMultiplyAdd(sums[q][i], factors.own, (isFirst ? 0.0f : output[i]) * factors.before);
        output[i] = isLast ? joined * shared.inverses[query + q] : joined;
      }
    }
  }

 private:
  /** Tokens that are not seen are left out. */
  template <bool isWhole>
  CHAIRLIFT_METHOD void addBlock(const uint8_t* from, const float* weights) {
    constexpr int step = 16;
#pragma unroll 1
    for (int first = 0; first < tokensOfBlock; first += step) {
      uint32_t words[step];
      float own[step][queries];
#pragma unroll
      for (int t = 0; t < step; t++) {
        words[t] = loadSome<kvType, values>(from + (first + t) * rowBytes);
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
template <int kvType, int queries, int width, int units>
CHAIRLIFT_DEVICE void addValues(const AttentionArgs& args, const AttentionPiece& piece, int kvHead,
                                StagedBlocks<kvType, width>& blocks, const FewShared& shared, const NewTokens<kvType>& added, Seen seenByAll, int segment,
                                int firstBlock) {
  const int warp = threadIndex() / 32, lane = threadIndex() % 32, warps = blocks.warps, firstPosition = firstBlock * tokensOfBlock;
  const int total = blocks.count * tokensOfBlock, most = warps * blocks.valueTokens;
  ValueSums<kvType, queries == 1 ? 1 : 2, width, queries> sums[units];
#pragma unroll
  for (int u = 0; u < units; u++) sums[u].start(blocks.layout, piece.queries, warp + u * warps);
  const auto isWhole = [&](int token) {
    return firstPosition + token >= seenByAll.first && firstPosition + token + tokensOfBlock - 1 <= seenByAll.last;
  };
  for (int round = 0, token = 0; token < total; round++, token += most) {
    blocks.wait();
    if (added.count > 0) {
      syncWarp();
      const int own = firstPosition + token + warp * blocks.valueTokens;
      added.patchValues(blocks.stage(round, warp), own, blocks.valueTokens, blocks.layout.padded);
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
  // One token and one value for each lane have the least latency, two use shared memory better.
  constexpr int width = queries <= 2 ? 1 : 2;
  StagedBlocks<kvType, width> blocks(args, kvHead, layout, shared);
#pragma unroll 1
  for (int segment = piece.firstSegment; segment < piece.endSegment; segment++) {
    const BlockRange range = blocksSeen({front.first, back.last}, segment, segment + 1);
    const int count = range.end - range.first;
    if (thread < count) shared.table[thread] = args.tables[piece.tableStart + range.first + thread];
    syncBlock();
    int stage = blocks.start(count);
#pragma unroll 1
    for (int group = warp; group * width < count; group += warps) {
      scoreGroup<kvType, queries>(args, blocks, shared, added, range.first, group, stage);
    }
    syncBlock();
    weightsOfSegment<kvType, queries>(args, layout, shared, blocks.base, shared.table, {0, count}, range.first, 0,
                                      [&](int position, const float* stored) { return added.scaleAt(position, 1, stored); });
    constexpr int most = queries > 4 ? 2 : 1;
    addValues<kvType, queries, width, most>(args, piece, kvHead, blocks, shared, added, {back.first, front.last}, segment, range.first);
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
