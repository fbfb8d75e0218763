// Paged attention: KV read block by block through the block table, softmax kept online within a segment, segments joined in
// order. A query's result depends on its own blocks alone, so batching and chunking cannot change it.
// Include after the ISA's vec-*.h, codes-*.h and vec-math.h.
#pragma once

#include <type_traits>

#include "kernels/attention-q4.h"
#include "kernels/kernels.h"
#include "kernels/kv-block.h"
#include "kernels/repeat.h"
#include "kernels/rows.h"
#include "kernels/softmax-state.h"
#include "kernels/store-kv.h"

namespace {

using namespace chairlift;

/** Whole vectors, and whole groups where there are groups. */
template <class Kv>
inline int paddedSizeOf(const AttentionTask& task) {
  if constexpr (std::is_same_v<Kv, NibbleKv>) return q4Groups(task.headSize) * q4GroupSize;
  else return int(roundUp16(size_t(task.valueSize())));
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
    toScores(block.scaledByKeys(low[q], 0), scale, softcapAt).store(queries[q]->weights);
    toScores(block.scaledByKeys(high[q], 16), scale, softcapAt).store(queries[q]->weights + 16);
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
    toScores(block.scaledByKeys(Vec::load(weights), 0), scale, softcapAt).store(weights);
    toScores(block.scaledByKeys(Vec::load(weights + 16), 16), scale, softcapAt).store(weights + 16);
  });
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
    block.scaledByValues(low[q], 0).store(queries[q]->weights);
    block.scaledByValues(high[q], 16).store(queries[q]->weights + 16);
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
  const int paddedSize = paddedSizeOf<Kv>(task);
  int begin[count], end[count];
  bool alike = true;
  for (int q = 0; q < count; q++) {
    const QueryState& state = *queries[q];
    begin[q] = state.first > blockStart ? state.first - blockStart : 0;
    end[q] = state.last - blockStart + 1 < blockTokens ? state.last - blockStart + 1 : blockTokens;
    alike = alike && begin[q] == begin[0] && end[q] == end[0];
  }
  softmaxBlock<Kv, count>(block, queries, begin, end, blockStart % segmentTokens == 0, paddedSize);
  if constexpr (std::is_same_v<Kv, NibbleKv>) {
    const int groups = paddedSize / q4GroupSize;
    if (alike && begin[0] == 0 && end[0] == blockTokens) {
      weighNibbles<count, ahead, true>(block, next, queries, begin, end, groups);
    } else {
      weighNibbles<count, ahead, false>(block, next, queries, begin, end, groups);
    }
  } else {
    if (alike) return weighBlock<Kv, count, ahead>(block, next, queries, begin[0], end[0], paddedSize);
    // Rows past a query's own end may hold anything, even NaN: each query reads its own range.
    for (int q = 0; q < count; q++) weighBlock<Kv, 1, ahead>(block, next, queries + q, begin[q], end[q], paddedSize);
  }
}

/** Calls run(Constant<count>) with as many queries as can be taken at a time. What is not kept has many: only its last ones go one by one. */
template <class Kv, int most, class Run>
CHAIRLIFT_INLINE void withQueries(int left, const Run& run) {
  if constexpr (Kv::isKept) withCount<most>(left < most ? left : most, run);
  else if (left < most) run(Constant<1>());
  else run(Constant<most>());
}

template <class Kv, int count, bool ahead>
CHAIRLIFT_INLINE void scoreQueries(const KvBlock<Kv>& block, const KvBlock<Kv>& next, QueryState* const* queries,
                                   const AttentionTask& task) {
  if constexpr (std::is_same_v<Kv, NibbleKv>) {
    scoreNibbles<count, ahead>(block, next, queries, q4Groups(task.headSize), task.scale, task.softcap);
  } else if (Kv::isKept && task.valuesInKeys > 0) {
    scoreRows<Kv, count>(block, next, queries, task.headSize, task.scale, task.softcap);
  } else {
    scoreBlock<Kv, count, ahead>(block, next, queries, task.headSize, task.scale, task.softcap);
  }
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
      if (taken == scoredQueries && left > taken) {
        scoreQueries<Kv, taken, taken != scoredQueries>(block, next, queries + q, task);
      } else {
        scoreQueries<Kv, taken, true>(block, next, queries + q, task);
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

/** `firstQuery`: of the states that are kept. */
template <class Kv>
inline void attendQueries(KvType type, const AttentionTask& task, QueryState* states, int firstQuery, int count) {
  int firstBlock = states[0].first / blockTokens, lastBlock = 0;
  for (int q = 0; q < count; q++) {
    if (states[q].first / blockTokens < firstBlock) firstBlock = states[q].first / blockTokens;
    if (states[q].last / blockTokens > lastBlock) lastBlock = states[q].last / blockTokens;
  }
  if (task.states) {
    if (firstBlock < task.firstSegment * segmentBlocks) firstBlock = task.firstSegment * segmentBlocks;
    if (lastBlock >= task.endSegment * segmentBlocks) lastBlock = task.endSegment * segmentBlocks - 1;
  }
  const int paddedSize = paddedSizeOf<Kv>(task);
  const auto forSegment = [&](int block, void (*run)(QueryState&, int)) {
    const int segment = block / segmentBlocks;
    for (int q = 0; q < count; q++) {
      if (!states[q].sees(segment * segmentTokens, segmentTokens)) continue;
      if (task.states) states[q].kept = keptState(task, segment, firstQuery + q);
      run(states[q], paddedSize);
    }
  };
  const auto endSegment = task.states ? keepSegment : joinSegment;
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
    if (b == lastBlock || b % segmentBlocks == segmentBlocks - 1) forSegment(b, endSegment);
  }
}

template <class Kv>
inline void attendAs(KvType type, const AttentionTask& task) {
  const int paddedSize = paddedSizeOf<Kv>(task);
  constexpr bool isNibbles = std::is_same_v<Kv, NibbleKv>;
  const size_t scratchOfQuery = size_t(2 * paddedSize + blockTokens) + (isNibbles ? byteGroupFloats(task.headSize) : 0);
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
      float* scratch = task.scratch + size_t(q) * scratchOfQuery;
      float* accumulator = scratch + paddedSize;
      ByteGroup* const groups = isNibbles ? (ByteGroup*)(scratch + 2 * paddedSize + blockTokens) : nullptr;
      const float* const query = task.queries + size_t(row) * task.queryStride + size_t(head) * size_t(task.headSize);
      if constexpr (isNibbles) toGroups(query, task.headSize, groups);
      // A sink counts as a token whose value is zero, seen before all others.
      states[q] = {query,
                   groups,
                   nullptr,
                   task.outputs + size_t(row) * task.outputStride + size_t(head) * size_t(task.valueSize()),
                   scratch + 2 * paddedSize,
                   {noMaximum, 0, scratch},
                   {task.sinks ? task.sinks[head] : noMaximum, task.sinks ? 1.0f : 0.0f, accumulator},
                   first,
                   last};
      for (int d = 0; d < paddedSize; d += 16) Vec::zero().store(accumulator + d);
    }
    if (task.joins) joinKept(task, states, from, count, paddedSize);
    else attendQueries<Kv>(type, task, states, from, count);
    if (task.states && !task.joins) continue;
    for (int q = 0; q < count; q++) {
      const SoftmaxState& state = states[q].joined;
      const float inverse = 1.0f / state.total;
      if constexpr (isNibbles) rotateBack(state.accumulator, task.headSize);
      for (int d = 0; d < task.valueSize(); d++) states[q].output[d] = state.accumulator[d] * inverse;
    }
  }
}

void attend(KvType type, const AttentionTask& task) {
  if (type == KvType::F16) attendAs<HalfKv>(type, task);
  else if (type == KvType::F32) attendAs<FloatKv>(type, task);
  else if (type == KvType::Q4) attendAs<NibbleKv>(type, task);
  else attendAs<ByteKv>(type, task);
}

}  // namespace
