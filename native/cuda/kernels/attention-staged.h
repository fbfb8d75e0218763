// Attention of a few rows with heads of at most 128 values. Time is mostly latency, so all keys and values that fit are on their
// way to shared memory at once: a warp copies whole blocks to stages of its own, in a ring. Include after attention-few.h.
#pragma once

namespace {

/** One element, in the lowest bits. */
template <int kvType>
CHAIRLIFT_DEVICE uint32_t loadElement(const uint8_t* from) {
  return kvType == kvHalf ? uint32_t(*(const uint16_t*)from) : uint32_t(*from);
}

/** Blocks of a segment, on their way through stages: items are the keys of all blocks, then the values. */
template <int kvType>
struct StagedBlocks {
  const HeadLayout<kvType>& layout;
  const uint8_t* base;
  const int32_t* table;
  int64_t blockStride;
  BlockRange range;
  uint8_t* stages;
  // A power of two.
  int stageCount;

  CHAIRLIFT_METHOD int count() const { return range.end - range.first; }
  CHAIRLIFT_METHOD int stageBytes() const { return layout.keyRow * tokensOfBlock * layout.element; }
  CHAIRLIFT_METHOD const uint8_t* block(int index) const { return base + int64_t(table[range.first + index]) * blockStride; }
  CHAIRLIFT_METHOD uint8_t* stage(int item) const { return stages + (item & (stageCount - 1)) * stageBytes(); }

  /** Where an item is, or null where there is none. */
  CHAIRLIFT_METHOD const uint8_t* source(int item) const {
    if (item >= 2 * count()) return nullptr;
    return item < count() ? block(item) : block(item - count()) + layout.valuesAt();
  }
  /** A warp copies an item, if there is one: a group of copies in any case. */
  CHAIRLIFT_METHOD void copy(int item, const uint8_t* from) const {
    if (from) {
      uint8_t* const to = stage(item);
      const int bytes = (item < count() ? layout.size : layout.keyRow) * tokensOfBlock * layout.element;
#pragma unroll 4
      for (int at = threadIndex() % 32 * 16; at < bytes; at += 32 * 16) copyToShared(to + at, from + at);
    }
    commitCopies();
  }
  CHAIRLIFT_METHOD void copy(int item) const { copy(item, source(item)); }
  /** Waits for the oldest item of this warp that it has not waited for. */
  CHAIRLIFT_METHOD void wait() const {
    if (stageCount == threadCount() / 32) waitForCopies<0>();
    else waitForCopies<1>();
  }
};

/** Adds the products of `count` queries and `values` elements of a token's key. */
template <int kvType, int count, int values>
CHAIRLIFT_DEVICE void addProducts(const float* queries, int stride, const uint8_t* key, float (&sums)[count]) {
  constexpr int column = tokensOfBlock * HeadLayout<kvType>::element;
  uint32_t keys[values];
  float query[values * count];
#pragma unroll
  for (int i = 0; i < values; i++) keys[i] = loadElement<kvType>(key + i * column);
  // Fewer than four queries are all of the piece, without room between values.
  constexpr int whole = values * count / 4;
#pragma unroll
  for (int i = 0; i < whole; i++) {
    const Floats4 four = *(const Floats4*)(queries + (count == 4 ? i * stride : i * 4));
    query[4 * i] = four.x, query[4 * i + 1] = four.y, query[4 * i + 2] = four.z, query[4 * i + 3] = four.w;
  }
#pragma unroll
  for (int i = 4 * whole; i < values * count; i++) query[i] = queries[i];
#pragma unroll
  for (int i = 0; i < values; i++) {
    const float own = kvOf<kvType>(keys[i], 0);
#pragma unroll
    for (int q = 0; q < count; q++) sums[q] = fusedMultiplyAdd(query[i * count + q], own, sums[q]);
  }
}

/** Scores of `count` queries and a block, whose keys are columns of tokens: a lane has a token. */
template <int kvType, int count>
CHAIRLIFT_DEVICE void scoreBlock(const AttentionArgs& args, const StagedBlocks<kvType>& blocks, const FewShared& shared, int index,
                                 int firstQuery) {
  constexpr int column = tokensOfBlock * HeadLayout<kvType>::element, step = count == 4 ? 8 : 16;
  const int lane = threadIndex() % 32, size = blocks.layout.size, stride = shared.stride;
  const uint8_t* const key = blocks.stage(index) + lane * blocks.layout.element;
  const float* const queries = shared.queries + firstQuery;
  float sums[count] = {};
  int d = 0;
  for (; d + step <= size; d += step) addProducts<kvType, count, step>(queries + d * stride, stride, key + d * column, sums);
#pragma unroll 1
  for (; d < size; d++) addProducts<kvType, count, 1>(queries + d * stride, stride, key + d * column, sums);
  const float* const scale = blocks.layout.keyScales(blocks.block(index)) + lane;
  const int position = (blocks.range.first + index) * tokensOfBlock + lane;
#pragma unroll
  for (int q = 0; q < count; q++) {
    const Seen seen = shared.seen[firstQuery + q];
    const bool isSeen = position >= seen.first && position <= seen.last;
    const float score = isSeen ? scoreOf<kvType>(args, sums[q], scale) : leastScore;
    shared.weights[(index * tokensOfBlock + lane) * stride + firstQuery + q] = score;
    const float best = largestOf32(score);
    if (lane == 0) shared.maxima[index * stride + firstQuery + q] = best;
  }
}

/** What a lane adds up in a unit: values of some queries. */
template <int queries, int values>
struct ValueSums {
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
  /** Adds a block in the order of tokens; where not all are seen, those that are not are left out. */
  template <int kvType, bool isWhole>
  CHAIRLIFT_METHOD void add(const HeadLayout<kvType>& layout, const FewShared& shared, const uint8_t* stage, int index) {
    const int stride = shared.stride, rowBytes = layout.padded * layout.element;
    const uint8_t* const from = stage + value * layout.element;
    const float* const weights = shared.weights + index * tokensOfBlock * stride + query;
    const float* const decays = shared.decays + index * stride + query;
#pragma unroll
    for (int q = 0; q < queries; q++) {
      const float decay = decays[q];
#pragma unroll
      for (int i = 0; i < values; i++) sums[q][i] = sums[q][i] * decay;
    }
    constexpr int step = 16;
    for (int first = 0; first < tokensOfBlock; first += step) {
      uint32_t words[step];
      float own[step][queries];
#pragma unroll
      for (int t = 0; t < step; t++) {
        const uint8_t* const at = from + (first + t) * rowBytes;
        words[t] = values == 2 ? loadPair<kvType>(at) : loadElement<kvType>(at);
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

/** Adds the weighted values of a segment in rounds, in each of which every warp has copied a block. */
template <int kvType, int queries, int values, int units>
CHAIRLIFT_DEVICE void addValues(const AttentionArgs& args, const AttentionPiece& piece, int kvHead,
                                const StagedBlocks<kvType>& blocks, const FewShared& shared, Seen seenByAll, int segment) {
  const int warp = threadIndex() / 32, lane = threadIndex() % 32, warps = threadCount() / 32, count = blocks.count();
  // Rounds are of items, of which values are the second half.
  int item = warp < count % warps ? count - count % warps + warps + warp : count - count % warps + warp;
  ValueSums<queries, values> sums[units];
#pragma unroll
  for (int u = 0; u < units; u++) sums[u].start(blocks.layout, piece.queries, warp + u * warps);
  for (int round = 0; round < count; round += warps) {
    blocks.wait();
    syncBlock();
    // The last warp has the least values to add.
    if (round == 0 && warp == warps - 1 && lane < piece.queries) {
      finishWeights(args, piece, kvHead, blocks.layout, shared, count, segment, lane);
    }
    for (int index = round; index < round + warps && index < count; index++) {
      const int first = (blocks.range.first + index) * tokensOfBlock;
      const bool isWhole = first >= seenByAll.first && first + tokensOfBlock - 1 <= seenByAll.last;
      const uint8_t* const stage = blocks.stage(count + index);
#pragma unroll
      for (int u = 0; u < units; u++) {
        if (!sums[u].exists) continue;
        if (isWhole) sums[u].template add<kvType, true>(blocks.layout, shared, stage, index);
        else sums[u].template add<kvType, false>(blocks.layout, shared, stage, index);
      }
    }
    if (round + blocks.stageCount < count) syncBlock();
    blocks.copy(item + blocks.stageCount);
    item += warps;
  }
  syncBlock();
#pragma unroll
  for (int u = 0; u < units; u++) sums[u].finish(args, piece, kvHead, blocks.layout, shared, segment);
}

/** Scores and weights of all queries of a segment, `count` at a time. */
template <int kvType, int count>
CHAIRLIFT_DEVICE void scoreBlocks(const AttentionArgs& args, const AttentionPiece& piece, const StagedBlocks<kvType>& blocks,
                                  const FewShared& shared) {
  for (int index = threadIndex() / 32; index < blocks.count(); index += threadCount() / 32) {
    blocks.wait();
    syncWarp();
    for (int q = 0; q < piece.queries; q += count) scoreBlock<kvType, count>(args, blocks, shared, index, q);
    syncWarp();
    blocks.copy(index + blocks.stageCount);
  }
  syncBlock();
  for (int q = 0; q < piece.queries; q += count) {
    weightsOfSegment<kvType, count>(args, blocks.layout, shared, blocks.base, blocks.table, blocks.range, q);
  }
}

/** Copies the queries of a piece to shared memory: a warp has one at a time. */
template <int kvType>
CHAIRLIFT_DEVICE void copyQueries(const AttentionArgs& args, const AttentionPiece& piece, int kvHead,
                                  const HeadLayout<kvType>& layout, const FewShared& shared) {
  constexpr int most = 128 / 32;
  const int lane = threadIndex() % 32;
  for (int q = threadIndex() / 32; q < shared.stride; q += threadCount() / 32) {
    float values[most] = {};
    if (q < piece.queries) {
      const QueryPlace place = queryPlace(args, piece, kvHead, q);
      const float* const from = args.queries + int64_t(place.row) * args.queryStride + int64_t(place.head) * layout.size;
#pragma unroll
      for (int i = 0; i < most; i++) {
        if (lane + 32 * i < layout.size) values[i] = from[lane + 32 * i];
      }
    }
#pragma unroll
    for (int i = 0; i < most; i++) {
      if (lane + 32 * i < layout.keyRow) shared.queries[(lane + 32 * i) * shared.stride + q] = values[i];
    }
  }
}

/** `isFirst`: no kernel before has been waited for. Whatever only hosts write is read before. */
template <int kvType>
CHAIRLIFT_DEVICE void attendStaged(const AttentionArgs& args, const AttentionPiece& piece, int kvHead, bool isFirst) {
  const HeadLayout<kvType> layout(args);
  const int thread = threadIndex(), warp = thread / 32, warps = threadCount() / 32, queries = piece.queries;
  FewShared shared(queries <= 2 ? queries : queries <= 4 ? 4 : fewQueries, layout.keyRow);
  shared.stageCount = args.stagesOfWarp * warps;
  // Later rows see no less at the end, and no more at the start.
  const Seen front = seenBy(args, piece, 0), back = seenBy(args, piece, queries - 1);
  const Seen seenByAny{front.first, back.last}, seenByAll{back.first, front.last};
  StagedBlocks<kvType> blocks{layout, args.kv + int64_t(kvHead) * args.headBytes, args.tables + piece.tableStart, args.blockStride,
                              {0, 0}, shared.stages, shared.stageCount};
  if (thread < shared.stride) shared.seen[thread] = seenBy(args, piece, thread);
  if (thread < queries) shared.joined[thread] = startState(args, queryPlace(args, piece, kvHead, thread).head);
  for (int segment = piece.firstSegment; segment < piece.endSegment; segment++) {
    blocks.range = blocksSeen(seenByAny, segment, segment + 1);
    const bool hasTwo = args.stagesOfWarp == 2;
    const uint8_t* const first = blocks.source(warp);
    const uint8_t* const second = hasTwo ? blocks.source(warp + warps) : nullptr;
    if (isFirst && segment == piece.firstSegment) waitForPrevious();
    blocks.copy(warp, first);
    if (hasTwo) blocks.copy(warp + warps, second);
    if (segment == piece.firstSegment) {
      copyQueries<kvType>(args, piece, kvHead, layout, shared);
      syncBlock();
    }
    if (queries == 1) scoreBlocks<kvType, 1>(args, piece, blocks, shared);
    else if (queries == 2) scoreBlocks<kvType, 2>(args, piece, blocks, shared);
    else scoreBlocks<kvType, 4>(args, piece, blocks, shared);
    const int units = (layout.padded + 63) / 64 * ((queries + 1) / 2);
    if (queries == 1) addValues<kvType, 1, 1, 1>(args, piece, kvHead, blocks, shared, seenByAll, segment);
    else if (queries == 2) addValues<kvType, 2, 1, 1>(args, piece, kvHead, blocks, shared, seenByAll, segment);
    else if (units <= warps) addValues<kvType, 2, 2, 1>(args, piece, kvHead, blocks, shared, seenByAll, segment);
    else addValues<kvType, 2, 2, 2>(args, piece, kvHead, blocks, shared, seenByAll, segment);
    // The next segment's copies and scores go where this one's were.
    waitForCopies<0>();
    syncBlock();
  }
  if (piece.parts == 1 || !isLastPart(args, piece, kvHead, shared.flag)) return;
  joinStates(args, piece, kvHead, layout.valueSize, layout.padded, shared.weights, tokensOfSegment * shared.stride);
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
    else attendStaged<kvType>(args, piece, kvHead, isFirst);
    isFirst = false;
    i += blocks;
    if (i >= count) break;
    kvHead = i % args.kvHeadCount;
    piece = args.pieces[i / args.kvHeadCount];
    syncBlock();
  }
}

}  // namespace
