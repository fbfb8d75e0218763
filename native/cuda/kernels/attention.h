// Paged attention: a warp has one query and reads its blocks through the block table, a lane a token. Softmax is kept online within
// segments of 512 tokens, which are joined in order. Include after heads.h.
#pragma once

namespace {

constexpr int tokensOfBlock = 32;
constexpr int blocksOfSegment = 16;
constexpr float leastScore = -3.4e38f;

CHAIRLIFT_DEVICE float exponentialOf(float x) { return exponential(Vec{x}).lane; }

struct Seen {
  int first, last;
};

/** Which positions a row sees. */
CHAIRLIFT_DEVICE Seen seenBy(const AttentionArgs& args, int own, int end) {
  const int inWindow = args.window > 0 && own >= args.window ? own - args.window + 1 : 0;
  const int inChunk = args.chunk > 0 ? own - own % args.chunk : 0;
  const int textEnd = args.isBidirectional ? end : 0;
  const bool cut = args.window > 0 && args.window < textEnd - own;
  const int last = textEnd == 0 ? own : cut ? own + args.window - 1 : textEnd - 1;
  return {inWindow > inChunk ? inWindow : inChunk, last};
}

template <int kvType>
CHAIRLIFT_DEVICE float loadKv(const uint8_t* from, int at) {
  return kvType == kvHalf ? halfToFloat(((const uint16_t*)from)[at]) : float(((const int8_t*)from)[at]);
}

/** The score of this lane's token. */
template <int kvType>
CHAIRLIFT_DEVICE float scoreOf(const AttentionArgs& args, const float* query, const uint8_t* block) {
  const int lane = threadIndex() % 32, size = args.headSize;
  constexpr int element = kvType == kvHalf ? 2 : 1;
  float product = 0;
  const float* scales;
  if (args.valuesInKeys > 0) {
    // Keys are rows: 16 lanes of a vector, then their sum.
    const int padded = roundUpTo16(size);
    float lanes[16] = {};
    for (int d = 0; d < size; d += 16) {
      for (int i = 0; i < 16; i++) {
        const float q = d + i < size ? query[d + i] : 0.0f;
        lanes[i] = fusedMultiplyAdd(q, loadKv<kvType>(block, lane * padded + d + i), lanes[i]);
      }
    }
    for (int half = 8; half > 0; half /= 2) {
      for (int i = 0; i < half; i++) lanes[i] = lanes[i] + lanes[i + half];
    }
    product = lanes[0];
    scales = (const float*)(block + padded * tokensOfBlock * element);
  } else {
    for (int d = 0; d < size; d++) product = fusedMultiplyAdd(query[d], loadKv<kvType>(block, d * tokensOfBlock + lane), product);
    scales = (const float*)(block + size * tokensOfBlock * element);
  }
  if (kvType == kvByte) product = product * scales[lane];
  const float score = product * args.scale;
  return args.softcap > 0 ? softcap(Vec{score}, args.softcap).lane : score;
}

/** Blocks: x are rows, y are query heads. Shared memory: the query, the sums of a segment, the sums of all. */
template <int kvType>
CHAIRLIFT_DEVICE void attend(const AttentionArgs& args) {
  waitForPrevious();
  const int row = blockX(), head = blockY(), lane = threadIndex() % 32, size = args.headSize;
  if (args.blocks[row] < 0) return;
  const int valueSize = args.valuesInKeys > 0 ? args.valuesInKeys : size, padded = roundUpTo16(valueSize);
  const int keyRow = roundUpTo16(size);
  constexpr int element = kvType == kvHalf ? 2 : 1;
  float* const query = (float*)sharedMemory();
  float* const own = query + size;
  float* const all = own + padded;
  for (int i = lane; i < size; i += 32) query[i] = args.queries[int64_t(row) * args.queryStride + head * size + i];
  for (int i = lane; i < padded; i += 32) all[i] = 0;
  syncWarp();
  const Seen seen = seenBy(args, args.positions[row], args.ends[row]);
  const int32_t* const table = args.tables + args.tableStarts[row];
  const uint8_t* const base = args.kv + int64_t(head / (args.headCount / args.kvHeadCount)) * args.headBytes;
  float allLargest = args.sinks ? args.sinks[head] : leastScore, allTotal = args.sinks ? 1.0f : 0.0f;
  const int lastBlock = seen.last / tokensOfBlock;
  for (int b = seen.first / tokensOfBlock; b <= lastBlock;) {
    const int next = (b / blocksOfSegment + 1) * blocksOfSegment, end = next < lastBlock + 1 ? next : lastBlock + 1;
    float largest = leastScore, total = 0;
    for (int i = lane; i < padded; i += 32) own[i] = 0;
    for (; b < end; b++) {
      const uint8_t* const block = base + int64_t(table[b]) * args.blockStride;
      const int from = seen.first > b * tokensOfBlock ? seen.first - b * tokensOfBlock : 0;
      const int to = seen.last - b * tokensOfBlock + 1 < tokensOfBlock ? seen.last - b * tokensOfBlock + 1 : tokensOfBlock;
      const bool isSeen = lane >= from && lane < to;
      const float score = isSeen ? scoreOf<kvType>(args, query, block) : leastScore;
      const float best = largestOf32(score), newest = best > largest ? best : largest;
      float weight = isSeen ? exponentialOf(score - newest) : 0.0f;
      const float added = sumOf16(weight + shuffleXor(weight, 16));
      if (!(newest - largest == 0)) {
        const float decay = exponentialOf(largest - newest);
        total = total * decay;
        for (int i = lane; i < padded; i += 32) own[i] = own[i] * decay;
        largest = newest;
      }
      total = total + added;
      const uint8_t* const values = args.valuesInKeys > 0 ? block : block + size * tokensOfBlock * element + (kvType == kvByte ? 128 : 0);
      if (kvType == kvByte) weight = weight * ((const float*)(values + keyRow * tokensOfBlock))[lane];
      for (int t = from; t < to; t++) {
        const float w = shuffle(weight, t);
        for (int i = lane; i < padded; i += 32) own[i] = fusedMultiplyAdd(w, loadKv<kvType>(values, t * keyRow + i), own[i]);
      }
    }
    const float newest = largest > allLargest ? largest : allLargest;
    const float a = exponentialOf(allLargest - newest), c = exponentialOf(largest - newest);
    allTotal = fusedMultiplyAdd(total, c, allTotal * a);
    for (int i = lane; i < padded; i += 32) all[i] = fusedMultiplyAdd(own[i], c, all[i] * a);
    allLargest = newest;
  }
  const float inverse = divided(1.0f, allTotal);
  float* const to = args.outputs + int64_t(row) * args.outputStride + head * valueSize;
  for (int i = lane; i < valueSize; i += 32) to[i] = all[i] * inverse;
}

}  // namespace
