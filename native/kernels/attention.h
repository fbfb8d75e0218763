// Paged attention: KV read block by block through the block table, softmax kept online within a segment, segments joined in
// order. A query's result depends on its own blocks alone, so batching and chunking cannot change it.
// Include after the ISA's vec-*.h and vec-math.h.
#pragma once

#include "kernels/kernels.h"
#include "kernels/repeat.h"
#include "kernels/rows.h"

namespace {

using namespace chairlift;

// `isKept`: between steps.
struct HalfKv {
  static constexpr bool isKept = true;
  using Element = uint16_t;
  static Vec load(const Element* from) { return Vec::loadF16(from); }
  static Vec scaled(Vec x, const float*) { return x; }
};
struct FloatKv {
  static constexpr bool isKept = false;
  using Element = float;
  static Vec load(const Element* from) { return Vec::load(from); }
  static Vec scaled(Vec x, const float*) { return x; }
};
struct ByteKv {
  static constexpr bool isKept = true;
  using Element = int8_t;
  static Vec load(const Element* from) { return Vec::loadI8(from); }
  static Vec scaled(Vec x, const float* scales) { return x * Vec::load(scales); }
};

template <class Kv>
struct KvBlock {
  using Element = typename Kv::Element;
  const Element* keys;
  const Element* values;
  const float* keyScales;
  const float* valueScales;
  // From the values of one token to those of the next.
  size_t valueStride;

  KvBlock(KvType type, const uint8_t* block, int headSize, bool valuesInKeys) {
    const uint8_t* valuePart = valuesInKeys ? block : block + keyBytes(type, headSize);
    valueStride = roundUp16(size_t(headSize));
    keys = (const Element*)block;
    values = (const Element*)valuePart;
    valueScales = (const float*)(valuePart + valueStride * blockTokens * sizeof(Element));
    keyScales = valuesInKeys ? valueScales
                             : (const float*)(block + size_t(headSize) * blockTokens * sizeof(Element));
  }
};

// Below all scores.
constexpr float noMaximum = -3.4e38f;

/** Online softmax over some tokens: the largest score, the sum of the weights relative to it, and the weighted values. */
struct SoftmaxState {
  float maximum;
  float total;
  float* accumulator;
};

/** One query: weights of the current block, the segment under way, and all segments before it. */
struct QueryState {
  const float* query;
  float* output;
  float* weights;
  SoftmaxState segment;
  SoftmaxState joined;
  // Tokens seen: positions first … last.
  int first;
  int last;

  bool sees(int start, int tokens) const { return last >= start && first < start + tokens; }
};

template <class Kv>
inline Vec toScores(Vec products, const float* keyScales, float scale, float softcapAt) {
  const Vec scores = Kv::scaled(products, keyScales) * Vec::set(scale);
  return softcapAt > 0 ? softcap(scores, softcapAt) : scores;
}

/**
 * Scores of `count` queries against the 32 tokens of a block, each K row read once for all of them. `ahead`: with a prefetch of the
 * next block.
 */
template <class Kv, int count, bool ahead>
inline void scoreBlock(const KvBlock<Kv>& block, const KvBlock<Kv>& next, QueryState* const* queries, int headSize,
                       float scale, float softcapAt) {
  Vec low[count], high[count];
  repeat<count>([&](int q) CHAIRLIFT_LAMBDA { low[q] = high[q] = Vec::zero(); });
  const float* values[count];
  repeat<count>([&](int q) CHAIRLIFT_LAMBDA { values[q] = queries[q]->query; });
  for (int d = 0; d < headSize; d++) {
    if (ahead) __builtin_prefetch(next.keys + d * blockTokens);
    if (ahead && sizeof(typename Kv::Element) == sizeof(float)) __builtin_prefetch(next.keys + d * blockTokens + 16);
    const Vec keyLow = Kv::load(block.keys + d * blockTokens);
    const Vec keyHigh = Kv::load(block.keys + d * blockTokens + 16);
    repeat<count>([&](int q) CHAIRLIFT_LAMBDA {
      const Vec value = Vec::set(values[q][d]);
      low[q] = fma(value, keyLow, low[q]);
      high[q] = fma(value, keyHigh, high[q]);
    });
  }
  repeat<count>([&](int q) CHAIRLIFT_LAMBDA {
    toScores<Kv>(low[q], block.keyScales, scale, softcapAt).store(queries[q]->weights);
    toScores<Kv>(high[q], block.keyScales + 16, scale, softcapAt).store(queries[q]->weights + 16);
  });
}

/** The same for keys that are stored token by token, as values are. */
template <class Kv, int count>
inline void scoreRows(const KvBlock<Kv>& block, const KvBlock<Kv>& next, QueryState* const* queries, int headSize,
                      float scale, float softcapAt) {
  const int whole = headSize / 16 * 16;
  for (int t = 0; t < blockTokens; t++) {
    const size_t row = size_t(t) * block.valueStride;
    Vec sums[count];
    repeat<count>([&](int q) CHAIRLIFT_LAMBDA { sums[q] = Vec::zero(); });
    for (int d = 0; d < whole; d += 16) {
      if (d % 32 == 0) __builtin_prefetch(next.keys + row + d);
      const Vec key = Kv::load(block.keys + row + d);
      repeat<count>([&](int q) CHAIRLIFT_LAMBDA { sums[q] = fma(Vec::load(queries[q]->query + d), key, sums[q]); });
    }
    if (whole < headSize) {
      const Vec key = Kv::load(block.keys + row + whole);
      repeat<count>([&](int q) CHAIRLIFT_LAMBDA {
        sums[q] = fma(loadFirst(queries[q]->query + whole, headSize - whole), key, sums[q]);
      });
    }
    repeat<count>([&](int q) CHAIRLIFT_LAMBDA { queries[q]->weights[t] = sum(sums[q]); });
  }
  repeat<count>([&](int q) CHAIRLIFT_LAMBDA {
    float* const weights = queries[q]->weights;
    toScores<Kv>(Vec::load(weights), block.keyScales, scale, softcapAt).store(weights);
    toScores<Kv>(Vec::load(weights + 16), block.keyScales + 16, scale, softcapAt).store(weights + 16);
  });
}

/** Replaces what belongs to tokens outside of begin … end - 1. */
inline void replaceUnseen(int begin, int end, float by, Vec& low, Vec& high) {
  if (begin == 0 && end == blockTokens) return;
  low = select(begin, end, low, Vec::set(by));
  high = select(begin - 16, end - 16, high, Vec::set(by));
}

inline void decay(SoftmaxState& state, float newMaximum, int paddedSize) {
  const Vec decays = exponential(Vec::set(state.maximum) - Vec::set(newMaximum));
  float first[16];
  decays.store(first);
  state.total *= first[0];
  for (int d = 0; d < paddedSize; d += 16) {
    (Vec::load(state.accumulator + d) * decays).store(state.accumulator + d);
  }
  state.maximum = newMaximum;
}

/**
 * Turns the block's scores into weights for its values, and moves states to their new maximum. Queries are interleaved, because
 * each step waits for the one before.
 */
template <class Kv, int count>
CHAIRLIFT_INLINE void softmaxBlock(const KvBlock<Kv>& block, QueryState* const* queries, const int* begin, const int* end,
                                   bool isFirst, int paddedSize) {
  Vec low[count], high[count];
  float maxima[count], added[count];
  repeat<count>([&](int q) CHAIRLIFT_LAMBDA {
    low[q] = Vec::load(queries[q]->weights);
    high[q] = Vec::load(queries[q]->weights + 16);
    replaceUnseen(begin[q], end[q], noMaximum, low[q], high[q]);
    const float largest = maximum(max(low[q], high[q])), before = queries[q]->segment.maximum;
    maxima[q] = largest > before ? largest : before;
  });
  repeat<count>([&](int q) CHAIRLIFT_LAMBDA {
    low[q] = exponential(low[q] - Vec::set(maxima[q]));
    high[q] = exponential(high[q] - Vec::set(maxima[q]));
    replaceUnseen(begin[q], end[q], 0, low[q], high[q]);
  });
  repeat<count>([&](int q) CHAIRLIFT_LAMBDA {
    added[q] = sum(low[q] + high[q]);
    Kv::scaled(low[q], block.valueScales).store(queries[q]->weights);
    Kv::scaled(high[q], block.valueScales + 16).store(queries[q]->weights + 16);
  });
  if (isFirst) {
    repeat<count>([&](int q) CHAIRLIFT_LAMBDA {
      queries[q]->segment.maximum = maxima[q];
      queries[q]->segment.total = added[q];
    });
    return;
  }
  for (int q = 0; q < count; q++) {
    SoftmaxState& state = queries[q]->segment;
    // Where the maximum stays, the decay is e^0, which is 1; one of infinity makes all NaN.
    if (!(maxima[q] - state.maximum == 0)) decay(state, maxima[q], paddedSize);
    state.total += added[q];
  }
}

/** Adds the weighted values of tokens begin … end - 1, those of 16 * slices lanes from `d` on. */
template <class Kv, int count, int slices, bool ahead>
CHAIRLIFT_INLINE void weighSlices(const KvBlock<Kv>& block, const KvBlock<Kv>& next, QueryState* const* queries, int begin,
                                  int end, int d) {
  const float* weights[count];
  repeat<count>([&](int q) CHAIRLIFT_LAMBDA { weights[q] = queries[q]->weights; });
  Vec sums[count * slices];
  repeat<count * slices>([&](int i) CHAIRLIFT_LAMBDA {
    sums[i] = Vec::load(queries[i / slices]->segment.accumulator + d + i % slices * 16);
  });
  for (int t = begin; t < end; t++) {
    const size_t at = size_t(t) * block.valueStride + size_t(d);
    Vec values[slices];
    repeat<slices>([&](int i) CHAIRLIFT_LAMBDA {
      // Half of its reads begin a line, or a quarter where values are bytes.
      if (ahead && (d + i * 16) % int(64 / sizeof(typename Kv::Element)) == 0) __builtin_prefetch(next.values + at + i * 16);
      values[i] = Kv::load(block.values + at + i * 16);
    });
    repeat<count * slices>([&](int i) CHAIRLIFT_LAMBDA {
      sums[i] = fma(Vec::set(weights[i / slices][t]), values[i % slices], sums[i]);
    });
  }
  repeat<count * slices>([&](int i) CHAIRLIFT_LAMBDA {
    sums[i].store(queries[i / slices]->segment.accumulator + d + i % slices * 16);
  });
}

/** All lanes; each V row is read once for all queries. */
template <class Kv, int count, bool ahead>
inline void weighBlock(const KvBlock<Kv>& block, const KvBlock<Kv>& next, QueryState* const* queries, int begin,
                       int end, int paddedSize) {
  // Several queries hide the latency of sums with fewer slices.
  constexpr int most = count > 1 && weighedSlices > 4 ? 4 : weighedSlices;
  for (int d = 0; d < paddedSize;) {
    // In even shares: sums of few slices wait for each other.
    const int left = (paddedSize - d) / 16, shares = (left + most - 1) / most;
    const int slices = (left + shares - 1) / shares;
    withCount<most>(slices, [&](auto constant) CHAIRLIFT_LAMBDA {
      weighSlices<Kv, count, decltype(constant)::value, ahead>(block, next, queries, begin, end, d);
    });
    d += 16 * slices;
  }
}

/** Turns scores into weights, and adds the values. */
template <class Kv, int count, bool ahead>
inline void weighTokens(const KvBlock<Kv>& block, const KvBlock<Kv>& next, QueryState* const* queries,
                        const AttentionTask& task, int blockStart) {
  const int paddedSize = int(roundUp16(size_t(task.valueSize())));
  int begin[count], end[count];
  bool alike = true;
  for (int q = 0; q < count; q++) {
    const QueryState& state = *queries[q];
    begin[q] = state.first > blockStart ? state.first - blockStart : 0;
    end[q] = state.last - blockStart + 1 < blockTokens ? state.last - blockStart + 1 : blockTokens;
    alike = alike && begin[q] == begin[0] && end[q] == end[0];
  }
  softmaxBlock<Kv, count>(block, queries, begin, end, blockStart % segmentTokens == 0, paddedSize);
  if (alike) return weighBlock<Kv, count, ahead>(block, next, queries, begin[0], end[0], paddedSize);
  // Rows past a query's own end may hold anything, even NaN: each query reads its own range.
  for (int q = 0; q < count; q++) weighBlock<Kv, 1, ahead>(block, next, queries + q, begin[q], end[q], paddedSize);
}

/** Calls run(Constant<count>) with as many queries as can be taken at a time. What is not kept has many: only its last ones go one by one. */
template <class Kv, int most, class Run>
CHAIRLIFT_INLINE void withQueries(int left, const Run& run) {
  if constexpr (Kv::isKept) withCount<most>(left < most ? left : most, run);
  else if (left < most) run(Constant<1>());
  else run(Constant<most>());
}

/**
 * Each part is done for all queries before the next, so that keys and then values stay in the first-level cache. What is done last
 * asks for the next block: earlier, it would have to make room again.
 */
template <class Kv>
inline void attendBlock(const KvBlock<Kv>& block, const KvBlock<Kv>& next, QueryState* const* queries, int count,
                        const AttentionTask& task, int blockStart) {
  for (int q = 0; q < count;) {
    const int left = count - q;
    withQueries<Kv, scoredQueries>(left, [&](auto constant) CHAIRLIFT_LAMBDA {
      constexpr int taken = decltype(constant)::value;
      if (Kv::isKept && task.valuesInKeys > 0) {
        scoreRows<Kv, taken>(block, next, queries + q, task.headSize, task.scale, task.softcap);
      } else if (taken == scoredQueries && left > taken) {
        scoreBlock<Kv, taken, taken != scoredQueries>(block, next, queries + q, task.headSize, task.scale, task.softcap);
      } else {
        scoreBlock<Kv, taken, true>(block, next, queries + q, task.headSize, task.scale, task.softcap);
      }
      q += taken;
    });
  }
  for (int q = 0; q < count;) {
    const int left = count - q;
    withQueries<Kv, attentionTile>(left, [&](auto constant) CHAIRLIFT_LAMBDA {
      constexpr int taken = decltype(constant)::value;
      if (taken == attentionTile && left > taken) {
        weighTokens<Kv, taken, taken != attentionTile>(block, next, queries + q, task, blockStart);
      } else {
        weighTokens<Kv, taken, true>(block, next, queries + q, task, blockStart);
      }
      q += taken;
    });
  }
}

inline void startSegment(QueryState& state, int paddedSize) {
  state.segment.maximum = noMaximum;
  state.segment.total = 0;
  for (int d = 0; d < paddedSize; d += 16) Vec::zero().store(state.segment.accumulator + d);
}

/** Joins the segment to those before it, the first one too, so that all segments have the same operations. */
inline void joinSegment(QueryState& state, int paddedSize) {
  SoftmaxState& joined = state.joined;
  const SoftmaxState& segment = state.segment;
  const float newMaximum = segment.maximum > joined.maximum ? segment.maximum : joined.maximum;
  // One exponential for both: half of its lanes each.
  const Vec maxima = select(0, 8, Vec::set(joined.maximum), Vec::set(segment.maximum));
  float factors[16];
  exponential(maxima - Vec::set(newMaximum)).store(factors);
  const Vec decays = Vec::set(factors[0]), shares = Vec::set(factors[8]);
  float total[16];
  fma(Vec::set(segment.total), shares, Vec::set(joined.total) * decays).store(total);
  joined.total = total[0];
  for (int d = 0; d < paddedSize; d += 16) {
    const Vec before = Vec::load(joined.accumulator + d) * decays;
    fma(Vec::load(segment.accumulator + d), shares, before).store(joined.accumulator + d);
  }
  joined.maximum = newMaximum;
}

template <class Kv>
inline void attendQueries(KvType type, const AttentionTask& task, QueryState* states, int count) {
  int firstBlock = states[0].first / blockTokens, lastBlock = 0;
  for (int q = 0; q < count; q++) {
    if (states[q].first / blockTokens < firstBlock) firstBlock = states[q].first / blockTokens;
    if (states[q].last / blockTokens > lastBlock) lastBlock = states[q].last / blockTokens;
  }
  const int paddedSize = int(roundUp16(size_t(task.valueSize())));
  const auto forSegment = [&](int block, void (*run)(QueryState&, int)) {
    const int start = block / segmentBlocks * segmentTokens;
    for (int q = 0; q < count; q++) {
      if (states[q].sees(start, segmentTokens)) run(states[q], paddedSize);
    }
  };
  for (int b = firstBlock; b <= lastBlock; b++) {
    if (b == firstBlock || b % segmentBlocks == 0) forSegment(b, startSegment);
    const int start = b * blockTokens;
    const auto at = [&](int index) {
      const uint8_t* own = task.base + size_t(task.blocks[index]) * task.blockStride;
      return KvBlock<Kv>(type, own, task.headSize, task.valuesInKeys > 0);
    };
    // Prefetches the next block; the last one itself.
    const KvBlock<Kv> block = at(b), next = at(b < lastBlock ? b + 1 : b);
    QueryState* seeing[attentionQueries];
    int n = 0;
    for (int q = 0; q < count; q++) {
      if (states[q].sees(start, blockTokens)) seeing[n++] = &states[q];
    }
    attendBlock<Kv>(block, next, seeing, n, task, start);
    if (b == lastBlock || b % segmentBlocks == segmentBlocks - 1) forSegment(b, joinSegment);
  }
}

template <class Kv>
inline void attendAs(KvType type, const AttentionTask& task) {
  const int paddedSize = int(roundUp16(size_t(task.valueSize())));
  const int total = task.rows * task.queryHeads;
  for (int from = 0; from < total; from += attentionQueries) {
    const int count = total - from < attentionQueries ? total - from : attentionQueries;
    QueryState states[attentionQueries];
    for (int q = 0; q < count; q++) {
      const int row = (from + q) / task.queryHeads, head = (from + q) % task.queryHeads;
      const int own = task.position + row;
      const int inWindow = task.window > 0 && own >= task.window ? own - task.window + 1 : 0;
      const int inChunk = task.chunk > 0 ? own - own % task.chunk : 0;
      const int first = inWindow > inChunk ? inWindow : inChunk;
      const bool cut = task.window > 0 && task.window < task.textEnd - own;
      const int inText = task.textEnd == 0 ? own : cut ? own + task.window - 1 : task.textEnd - 1;
      const int last = task.imageEnd > inText ? task.imageEnd - 1 : inText;
      float* scratch = task.scratch + size_t(q) * size_t(2 * paddedSize + blockTokens);
      float* accumulator = scratch + paddedSize;
      // A sink counts as a token whose value is zero, seen before all others.
      states[q] = {task.queries + size_t(row) * task.queryStride + size_t(head) * size_t(task.headSize),
                   task.outputs + size_t(row) * task.outputStride + size_t(head) * size_t(task.valueSize()),
                   scratch + 2 * paddedSize,
                   {noMaximum, 0, scratch},
                   {task.sinks ? task.sinks[head] : noMaximum, task.sinks ? 1.0f : 0.0f, accumulator},
                   first,
                   last};
      for (int d = 0; d < paddedSize; d += 16) Vec::zero().store(accumulator + d);
    }
    attendQueries<Kv>(type, task, states, count);
    for (int q = 0; q < count; q++) {
      const SoftmaxState& state = states[q].joined;
      const float inverse = 1.0f / state.total;
      for (int d = 0; d < task.valueSize(); d++) states[q].output[d] = state.accumulator[d] * inverse;
    }
  }
}

void attend(KvType type, const AttentionTask& task) {
  if (type == KvType::F16) attendAs<HalfKv>(type, task);
  else if (type == KvType::F32) attendAs<FloatKv>(type, task);
  else attendAs<ByteKv>(type, task);
}

/** Clamped to the range of halves, so that none is infinite. */
inline void toHalves(const float* from, int count, uint16_t* to) {
  const Vec largest = Vec::set(65504.0f), smallest = Vec::set(-65504.0f);
  float tail[16] = {};
  for (int d = 0; d < count; d += 16) {
    const bool whole = d + 16 <= count;
    if (!whole) memcpy(tail, from + d, size_t(count - d) * sizeof(float));
    // The operand order matters: NaN stays NaN.
    max(smallest, min(largest, Vec::load(whole ? from + d : tail))).storeF16(to + d);
  }
}

inline void storeHalves(const float* key, const float* value, int headSize, int token, uint8_t* block) {
  const size_t row = size_t(token) * roundUp16(size_t(headSize));
  if (!value) return toHalves(key, headSize, (uint16_t*)block + row);
  uint16_t halves[maxHeadSize];
  toHalves(key, headSize, halves);
  uint16_t* keys = (uint16_t*)block + token;
  for (int d = 0; d < headSize; d++) keys[d * blockTokens] = halves[d];
  toHalves(value, headSize, (uint16_t*)(block + keyBytes(KvType::F16, headSize)) + row);
}

inline void storeFloats(const float* key, const float* value, int headSize, int token, uint8_t* block) {
  float* const keys = (float*)block + token;
  for (int d = 0; d < headSize; d++) keys[d * blockTokens] = key[d];
  const size_t padded = roundUp16(size_t(headSize));
  float* const values = (float*)(block + keyBytes(KvType::F32, headSize)) + size_t(token) * padded;
  memcpy(values, value, size_t(headSize) * sizeof(float));
  memset(values + headSize, 0, (padded - size_t(headSize)) * sizeof(float));
}

/** One scale per token and head; returns it. */
inline float storeBytes(const float* from, int count, int8_t* to, size_t stride) {
  float largest = 0;
  float poison = 0;
  for (int i = 0; i < count; i++) {
    const float magnitude = __builtin_fabsf(from[i]);
    if (magnitude > largest) largest = magnitude;
    poison += from[i] - from[i];
  }
  const float scale = largest / 127.0f;
  const float inverse = scale > 1e-30f ? 1.0f / scale : 0.0f;
  for (int i = 0; i < count; i++) {
    const float code = __builtin_nearbyintf(from[i] * inverse);
    to[size_t(i) * stride] = code >= -127.0f && code <= 127.0f ? int8_t(code) : int8_t(0);
  }
  return scale + poison;
}

void storeKv(KvType type, const float* key, const float* value, int headSize, int token, uint8_t* block) {
  if (type == KvType::F16) return storeHalves(key, value, headSize, token, block);
  if (type == KvType::F32) return storeFloats(key, value, headSize, token, block);
  uint8_t* valuePart = value ? block + keyBytes(type, headSize) : block;
  const size_t padded = roundUp16(headSize);
  float* keyScales = (float*)(block + size_t(headSize) * blockTokens);
  float* valueScales = (float*)(valuePart + padded * blockTokens);
  if (value) keyScales[token] = storeBytes(key, headSize, (int8_t*)block + token, blockTokens);
  valueScales[token] = storeBytes(value ? value : key, headSize, (int8_t*)valuePart + size_t(token) * padded, 1);
}

}  // namespace
