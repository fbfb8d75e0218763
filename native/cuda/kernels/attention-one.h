// Attention of sequences with one row each, where a GPU has room for all their pieces at once: what counts is latency. A block has some
// queries of one KV head and one segment; its keys and values are on their way before the kernel before has ended, and code is short,
// because it is read from memory too: heads have 64 or 128 values, wholly rotated or not at all. Include after attention-staged.h.
#pragma once

namespace {

/** Shared memory of a block: see `oneSharedBytes`. */
struct OneShared {
  // [value][query]; and by query the weights of all tokens.
  float* queries;
  float* weights;
  // By block and query: the largest score, what sums before the block are multiplied by, and the sum of the block's weights.
  float* maxima;
  float* decays;
  float* added;
  // Of the new token: scales of its key and value, and their elements as the cache has them.
  float* scales;
  uint8_t* elements;
  uint8_t* slots;

  CHAIRLIFT_METHOD OneShared(int queryCount, int size, int element) {
    queries = (float*)sharedMemory();
    weights = queries + size * queryCount;
    maxima = weights + tokensOfSegment * queryCount;
    decays = maxima + blocksOfSegment * queryCount;
    added = decays + blocksOfSegment * queryCount;
    scales = added + blocksOfSegment * queryCount;
    elements = (uint8_t*)(scales + 4);
    slots = elements + 2 * size * element;
  }
};

/** A head in registers: a lane has the values `lane`, `lane` + 32 and so on. */
template <int size>
struct HeadValues {
  static constexpr int each = size / 32, pairs = each / 2;
  float of[each];

  CHAIRLIFT_METHOD void load(const float* from) {
#pragma unroll
    for (int i = 0; i < each; i++) of[i] = from[i * 32];
  }
  /** See scaleOfHead. */
  CHAIRLIFT_METHOD float sum(float mean, bool squares) const {
    float own[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < each; i++) {
      const float value = of[i] - mean;
      own[i % 2] = squares ? fusedMultiplyAdd(value, value, own[i % 2]) : own[i % 2] + of[i];
    }
    own[0] = own[0] + shuffleXor(own[0], 16);
    own[1] = own[1] + shuffleXor(own[1], 16);
    return sumOf16(own[0] + own[1]);
  }
  CHAIRLIFT_METHOD void normalize(const NormArgs& norm, const Scale* given, const float* weight, const float* bias) {
    Scale scale{};
    if (given) {
      scale = *given;
    } else {
      // A loop, so that there is one copy of the code.
      float sums[2] = {};
#pragma unroll 1
      for (int turn = norm.kind == normLayer ? 0 : 1; turn < 2; turn++) {
        sums[0] = sums[1];
        sums[1] = divided(sum(sums[0], turn == 1), float(size));
      }
      scale = {sums[0], divided(1.0f, squareRoot(sums[1] + norm.epsilon))};
    }
#pragma unroll
    for (int i = 0; i < each; i++) {
      of[i] = normalizedValue(of[i], scale, weight[i * 32]);
      if (bias) of[i] = of[i] + bias[i * 32];
    }
  }
  CHAIRLIFT_METHOD void rotate(const float (&turns)[each]) {
#pragma unroll
    for (int i = 0; i < pairs; i++) {
      const float a = of[i], b = of[i + pairs], cosine = turns[i], sine = turns[pairs + i];
      of[i] = a * cosine - b * sine;
      of[i + pairs] = b * cosine + a * sine;
    }
  }
};

/** One segment of the queries of a row. */
template <int kvType, int queries, int size>
class OneRow {
 public:
  CHAIRLIFT_METHOD OneRow(const AttentionArgs& args, const AttentionPiece& piece, int kvHead)
      : args_(args),
        piece_(piece),
        shared_(queries, size, element),
        kvHead_(kvHead),
        warp_(threadIndex() / 32),
        lane_(threadIndex() % 32),
        seen_(args.view.of(piece.position, piece.end)),
        range_(blocksSeen(seen_, piece.firstSegment, piece.firstSegment + 1)),
        count_(range_.end - range_.first),
        newBlock_(args.place.stores ? piece.position / tokensOfBlock - range_.first : -1),
        hasNew_(newBlock_ >= 0 && newBlock_ < count_) {}

  CHAIRLIFT_METHOD void run() {
    // Layers without keys of their own read what another layer stores in this step.
    if (!args_.place.stores) waitForPrevious();
    startCopies();
    place();
    syncBlock();
#pragma unroll 1
    for (int k = 0; warp_ + k * oneWarps < count_; k++) scoreBlock(k);
    syncBlock();
#pragma unroll 1
    for (int k = 0; warp_ + k * oneWarps < count_; k++) weighBlock(warp_ + k * oneWarps);
    waitForCopies<0>();
    syncWarp();
    if (hasNew_ && newBlock_ % oneWarps == warp_) putNew(valuesAt(newBlock_), newToken() * size, 1, 1);
    syncBlock();
    addValues();
    if (piece_.parts > 1) joinAll();
  }

 private:
  static constexpr int element = HeadLayout<kvType>::element;
  static constexpr int partBytes = size * tokensOfBlock * element;
  // A warp has room for the keys of its first block, those of its second, and values of the first; values of the second follow the
  // first keys. In a block scales of bytes follow keys, and values.
  static constexpr int scaleBytes = kvType == kvByte ? tokensOfBlock * 4 : 0;
  static constexpr int valuesStart = partBytes + scaleBytes;

  CHAIRLIFT_METHOD int newToken() const { return piece_.position % tokensOfBlock; }
  CHAIRLIFT_METHOD uint8_t* block(int index) const {
    return const_cast<uint8_t*>(args_.kv) + int64_t(args_.pieces[blockX() / args_.kvHeadCount].blocks[index]) * args_.blockStride +
           int64_t(kvHead_) * args_.headBytes;
  }
  CHAIRLIFT_METHOD uint8_t* slot(int warp, int index) const { return shared_.slots + (warp * slotsOfWarp + index) * partBytes; }
  CHAIRLIFT_METHOD uint8_t* keysAt(int index) const { return slot(index % oneWarps, index / oneWarps); }
  CHAIRLIFT_METHOD uint8_t* valuesAt(int index) const { return slot(index % oneWarps, index < oneWarps ? 2 : 0); }

  /** What is together in memory, by this warp. */
  CHAIRLIFT_METHOD void copy(uint8_t* to, const uint8_t* from) const {
#pragma unroll 8
    for (int i = 0; i < partBytes; i += 512) {
      if (partBytes % 512 == 0 || i + lane_ * 16 < partBytes) copyToShared(to + i + lane_ * 16, from + i + lane_ * 16);
    }
  }
  CHAIRLIFT_METHOD void copyKeys(int index) const {
    if (index < count_) copy(keysAt(index), block(index));
    commitCopies();
  }
  CHAIRLIFT_METHOD void copyValues(int index) const {
    if (index < count_) copy(valuesAt(index), block(index) + valuesStart);
    commitCopies();
  }
  CHAIRLIFT_METHOD void startCopies() const {
    copyKeys(warp_);
    copyKeys(warp_ + oneWarps);
    copyValues(warp_);
  }

  CHAIRLIFT_METHOD int headOf(int query) const { return kvHead_ * (args_.headCount / args_.kvHeadCount) + piece_.firstQuery + query; }

  /**
   * Norms and rotation of a head by each of the last warps, which have the least keys: a query's, the new token's key or its value. What
   * only hosts write is on its way before the kernel before has ended.
   */
  CHAIRLIFT_METHOD void place() const {
    const int task = oneWarps - 1 - warp_;
    const bool isQuery = task < queries, isValue = task > queries;
    if (isQuery ? task >= piece_.queries : task > queries + 1 || !hasNew_) {
      waitForPrevious();
      return;
    }
    const PlaceHeadsArgs& how = args_.place;
    const int at = (isQuery ? headOf(task) : kvHead_) * size;
    const int64_t start = isQuery ? 0 : isValue && how.hasValues ? how.valuesAt : how.keysAt;
    const float* const from = how.projected + int64_t(piece_.firstRow) * how.stride + start + at + lane_;
    const NormArgs& norm = isQuery ? how.queryNorm : isValue ? how.valueNorm : how.keyNorm;
    const Scale* const scales = isQuery ? how.queryScales : isValue ? how.valueScales : how.keyScales;
    const bool hasOwn = isQuery ? how.queryOwn : isValue ? how.valueOwn : how.keyOwn;
    const int firstWeight = (hasOwn ? at : 0) + lane_;
    if (norm.weight && lane_ < size / 32) prefetch(norm.weight + firstWeight - lane_ + lane_ * 32);
    float turns[HeadValues<size>::each] = {};
    const bool isTurned = how.rotations && !isValue;
    if (isTurned) {
      const float* const own = how.rotations + int64_t(piece_.position) * size + lane_;
#pragma unroll
      for (int i = 0; i < HeadValues<size>::each; i++) turns[i] = own[i * 32];
    }
    waitForPrevious();
    HeadValues<size> head;
    head.load(from);
    const bool isLate = how.normsAfterRope && !isValue;
    const float* const bias = norm.bias ? norm.bias + firstWeight : nullptr;
#pragma unroll 1
    for (int turn = 0; turn < 2; turn++) {
      if ((turn == 0) == isLate) {
        if (isTurned) head.rotate(turns);
      } else if (norm.weight) {
        head.normalize(norm, scales ? scales + piece_.firstRow : nullptr, norm.weight + firstWeight, bias);
      }
    }
    if (!isQuery) {
      storeNew(head, isValue);
      return;
    }
    const float factor = how.growth ? how.growth[piece_.position] : 1.0f;
#pragma unroll
    for (int i = 0; i < HeadValues<size>::each; i++) {
      shared_.queries[(lane_ + i * 32) * queries + task] = how.growth ? head.of[i] * factor : head.of[i];
    }
  }
  CHAIRLIFT_METHOD uint8_t* newElements(int which) const { return shared_.elements + which * size * element; }
  /** The new token's key (0) or value (1), in shared memory, and in its block by the first of those that have it. */
  CHAIRLIFT_METHOD void storeNew(const HeadValues<size>& head, int which) const {
    uint8_t* const to = newElements(which);
    float scale = 1;
    if constexpr (kvType == kvByte) {
      uint32_t largest = 0;
      float poison = 0;
#pragma unroll
      for (int i = 0; i < HeadValues<size>::each; i++) {
        const float magnitude = asFloat(asBits(head.of[i]) & 0x7fffffffu);
        if (magnitude > asFloat(largest)) largest = asBits(magnitude);
        poison = poison + (head.of[i] - head.of[i]);
      }
      for (int half = 16; half > 0; half /= 2) {
        const uint32_t other = shuffleXor(largest, half);
        if (other > largest) largest = other;
        poison = poison + shuffleXor(poison, half);
      }
      const float step = divided(asFloat(largest), 127.0f);
      const float inverse = step > 1e-30f ? divided(1.0f, step) : 0.0f;
#pragma unroll
      for (int i = 0; i < HeadValues<size>::each; i++) {
        const float code = roundToEven(head.of[i] * inverse);
        to[lane_ + i * 32] = uint8_t(code >= -127.0f && code <= 127.0f ? int8_t(code) : int8_t(0));
      }
      scale = step + poison;
      if (lane_ == 0) shared_.scales[which] = scale;
    } else {
#pragma unroll
      for (int i = 0; i < HeadValues<size>::each; i++) ((uint16_t*)to)[lane_ + i * 32] = toHalf(head.of[i]);
    }
    syncWarp();
    if (piece_.firstQuery > 0) return;
    uint8_t* const kept = block(newBlock_) + (which ? valuesStart : 0);
    putNew(kept, which ? newToken() * size : newToken(), which ? 1 : tokensOfBlock, which);
    if (kvType == kvByte && lane_ == 0) ((float*)(kept + partBytes))[newToken()] = scale;
  }
  /** Puts the new token's key (0) or value (1) to where elements `stride` apart from `first` on are. */
  CHAIRLIFT_METHOD void putNew(uint8_t* to, int first, int stride, int which) const {
    const uint8_t* const from = newElements(which);
#pragma unroll
    for (int i = 0; i < HeadValues<size>::each; i++) {
      const int own = lane_ + i * 32, target = first + own * stride;
      if (kvType == kvHalf) ((uint16_t*)to)[target] = ((const uint16_t*)from)[own];
      else to[target] = from[own];
    }
  }
  /** The scale of a token's key (0) or value (1). */
  CHAIRLIFT_METHOD float scaleAt(int index, int which) const {
    if (kvType == kvHalf) return 1.0f;
    if (hasNew_ && index == newBlock_ && lane_ == newToken()) return shared_.scales[which];
    return loadFresh((const float*)(block(index) + (which ? valuesStart : 0) + partBytes) + lane_);
  }

  /** Scores of a block of this warp, a token for each lane. */
  CHAIRLIFT_METHOD void scoreBlock(int k) const {
    constexpr int step = queries == 4 ? 8 : 32 / queries;
    const int index = warp_ + k * oneWarps, position = (range_.first + index) * tokensOfBlock + lane_;
    const float scale = scaleAt(index, 0);
    uint8_t* const keys = keysAt(index);
    waitForCopies<2>();
    syncWarp();
    if (hasNew_ && index == newBlock_) {
      putNew(keys, newToken(), tokensOfBlock, 0);
      syncWarp();
    }
    float sums[queries][1] = {};
#pragma unroll 1
    for (int d = 0; d < size; d += step) {
      addProducts<kvType, step>(shared_.queries + d * queries, keys + (d * tokensOfBlock + lane_) * element, sums);
    }
    syncWarp();
    // Keys of the first block make room.
    if (k == 0) copyValues(index + oneWarps);
    const bool isSeen = position >= seen_.first && position <= seen_.last;
#pragma unroll
    for (int q = 0; q < queries; q++) {
      float* const at = shared_.weights + q * tokensOfSegment + index * tokensOfBlock + lane_;
      float score = scaledScore<kvType>(args_, sums[q][0], scale);
      if (args_.softcap > 0) {
        *at = score;
        capScores(args_, at, 1);
        score = *at;
      }
      *at = score;
      const float largest = largestScore(isSeen && score > leastScore ? score : leastScore);
      if (lane_ == 0) shared_.maxima[index * queries + q] = largest;
    }
  }
  static CHAIRLIFT_METHOD float largestScore(float value) {
#pragma unroll
    for (int half = 16; half > 0; half /= 2) {
      const float other = shuffleXor(value, half);
      value = other > value ? other : value;
    }
    return value;
  }

  /** Weights of a block of this warp. */
  CHAIRLIFT_METHOD void weighBlock(int index) const {
    const int position = (range_.first + index) * tokensOfBlock + lane_;
    const bool isSeen = position >= seen_.first && position <= seen_.last;
    const float scale = scaleAt(index, 1);
#pragma unroll
    for (int q = 0; q < queries; q++) {
      float last = leastScore, newest = leastScore;
#pragma unroll 4
      for (int i = 0; i <= index; i++) {
        const float best = shared_.maxima[i * queries + q];
        last = newest;
        newest = best > newest ? best : newest;
      }
      float* const at = shared_.weights + q * tokensOfSegment + index * tokensOfBlock + lane_;
      const float weight = isSeen ? exponentialOf(*at - newest) : 0.0f;
      const float sum = sumOf16(weight + shuffleXor(weight, 16));
      *at = kvType == kvByte ? weight * scale : weight;
      // Where the maximum stays, the decay is e^0, which is 1; one of infinity makes all NaN.
      const float decay = newest - last == 0 ? 1.0f : exponentialOf(last - newest);
      if (lane_ == 0) {
        shared_.decays[index * queries + q] = decay;
        shared_.added[index * queries + q] = sum;
      }
    }
  }

  /** Weighted values, two for each thread, in the order of tokens; each thread works out the totals for itself. */
  CHAIRLIFT_METHOD void addValues() const {
    constexpr int pairs = size / 2;
    const int query = threadIndex() / pairs, value = threadIndex() % pairs * 2;
    if (query >= queries) return;
    float sums[2] = {}, largest = leastScore, total = 0;
#pragma unroll 1
    for (int index = 0; index < count_; index++) {
      const int at = index * queries + query;
      const float best = shared_.maxima[at], decay = shared_.decays[at];
      largest = best > largest ? best : largest;
      total = total * decay + shared_.added[at];
      sums[0] = sums[0] * decay;
      sums[1] = sums[1] * decay;
      addBlock(index, query, value, sums);
    }
    finish(query, value, sums, {largest, total});
  }
  CHAIRLIFT_METHOD void addBlock(int index, int query, int value, float (&sums)[2]) const {
    const int position = (range_.first + index) * tokensOfBlock;
    const int from = seen_.first > position ? seen_.first - position : 0;
    const int end = seen_.last - position < tokensOfBlock - 1 ? seen_.last - position + 1 : tokensOfBlock;
    const float* const weights = shared_.weights + query * tokensOfSegment + index * tokensOfBlock;
    const uint8_t* const values = valuesAt(index) + value * element;
    if (end - from == tokensOfBlock) {
      addTokens<tokensOfBlock>(0, weights, values, sums);
      return;
    }
    int t = from;
#pragma unroll 1
    for (; t % 4 != 0 && t < end; t++) addTokens<1>(t, weights, values, sums);
#pragma unroll 1
    for (; t + 4 <= end; t += 4) addTokens<4>(t, weights, values, sums);
#pragma unroll 1
    for (; t < end; t++) addTokens<1>(t, weights, values, sums);
  }
  template <int tokens>
  CHAIRLIFT_METHOD void addTokens(int token, const float* weights, const uint8_t* values, float (&sums)[2]) const {
    uint32_t own[tokens];
    float of[tokens];
#pragma unroll
    for (int t = 0; t < tokens; t++) own[t] = loadPair<kvType>(values + (token + t) * size * element);
    if constexpr (tokens % 4 == 0) {
#pragma unroll
      for (int t = 0; t < tokens; t += 4) {
        const Floats4 four = *(const Floats4*)(weights + token + t);
        of[t] = four.x, of[t + 1] = four.y, of[t + 2] = four.z, of[t + 3] = four.w;
      }
    } else {
      of[0] = weights[token];
    }
#pragma unroll
    for (int t = 0; t < tokens; t++) {
      sums[0] = fusedMultiplyAdd(of[t], kvOf<kvType>(own[t], 0), sums[0]);
      sums[1] = fusedMultiplyAdd(of[t], kvOf<kvType>(own[t], 1), sums[1]);
    }
  }

  /** Two values of the output, or of the segment's state. */
  CHAIRLIFT_METHOD void finish(int query, int value, const float (&sums)[2], SoftmaxState segment) const {
    if (query >= piece_.queries) return;
    if (piece_.parts > 1) {
      float* const state = stateOf(args_, piece_, kvHead_, piece_.firstSegment, query, size);
      if (value == 0) state[0] = segment.largest, state[1] = segment.total;
      state[stateHead + value] = sums[0];
      state[stateHead + value + 1] = sums[1];
      return;
    }
    SoftmaxState joined = startState(args_, headOf(query));
    const JoinFactors factors = join(joined, segment);
    const float inverse = divided(1.0f, joined.total);
    float* const to = outputOf(args_, piece_, kvHead_, query, size) + value;
    to[0] = fusedMultiplyAdd(sums[0], factors.own, 0.0f * factors.before) * inverse;
    to[1] = fusedMultiplyAdd(sums[1], factors.own, 0.0f * factors.before) * inverse;
  }
  CHAIRLIFT_METHOD void joinAll() const {
    if (!isLastPart(args_, piece_, kvHead_, (int*)shared_.queries)) return;
    syncBlock();
    joinStates(args_, piece_, kvHead_, size, size, shared_.weights, tokensOfSegment * piece_.queries);
  }

  const AttentionArgs& args_;
  const AttentionPiece& piece_;
  const OneShared shared_;
  const int kvHead_, warp_, lane_;
  const Seen seen_;
  const BlockRange range_;
  const int count_;
  // The block of the row's own token, among those of the segment.
  const int newBlock_;
  const bool hasNew_;
};

/** A block for each piece and KV head; lists are padded with pieces that have no queries. */
template <int kvType, int queries, int size>
CHAIRLIFT_DEVICE void attendOne(const AttentionArgs& args) {
  startNext();
  const AttentionPiece& from = args.pieces[blockX() / args.kvHeadCount];
  AttentionPiece piece;
  piece.firstRow = from.firstRow, piece.position = from.position, piece.end = from.end, piece.firstQuery = from.firstQuery;
  piece.queries = from.queries, piece.firstSegment = from.firstSegment, piece.parts = from.parts;
  piece.firstOfAll = from.firstOfAll, piece.firstState = from.firstState, piece.counter = from.counter;
  if (piece.queries == 0) return;
  OneRow<kvType, queries, size>(args, piece, blockX() % args.kvHeadCount).run();
}

}  // namespace
