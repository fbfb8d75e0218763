// Attention of one query in plain loops, token by token: its order of operations, whatever keys and values are.
#pragma once

#include "equality.h"
#include "kernels/vec-scalar.h"
#include "kernels/vec-math.h"

namespace chairlift {

inline float exponentialOf(float x) { return exponential(Vec::set(x)).lane[0]; }

struct Softmax {
  explicit Softmax(int size) : accumulator(size_t(size)) {}
  float maximum = -3.4e38f, total = 0;
  std::vector<float> accumulator;
};

/**
 * What one query makes of tokens first … last: dot(token) is its product with a key; weigh(block, weights, accumulator) adds the
 * values of the 32 tokens from `block` on, whose weights are 0 where they are not seen.
 */
template <class Dot, class Weigh>
Softmax attended(int size, const Dot& dot, const Weigh& weigh, float scale, const float* sink, int first, int last) {
  Softmax joined(size);
  if (sink) {
    joined.maximum = *sink;
    joined.total = 1;
  }
  for (int start = first / 512 * 512; start <= last; start += 512) {
    Softmax segment(size);
    for (int block = start; block < start + 512; block += 32) {
      const auto seen = [&](int t) { return block + t >= first && block + t <= last; };
      float scores[32], weights[32] = {}, largest = segment.maximum;
      for (int t = 0; t < 32; t++) {
        if (!seen(t)) continue;
        scores[t] = dot(block + t) * scale;
        largest = std::max(largest, scores[t]);
      }
      if (block > last || block + 31 < first) continue;
      for (int t = 0; t < 32; t++) {
        if (seen(t)) weights[t] = exponentialOf(scores[t] - largest);
      }
      const float decay = exponentialOf(segment.maximum - largest);
      segment.maximum = largest;
      segment.total = segment.total * decay + sum(Vec::load(weights) + Vec::load(weights + 16));
      for (float& value : segment.accumulator) value = value * decay;
      weigh(block, weights, segment.accumulator);
    }
    if (start + 511 < first) continue;
    const float maximum = std::max(joined.maximum, segment.maximum);
    const float decay = exponentialOf(joined.maximum - maximum), share = exponentialOf(segment.maximum - maximum);
    joined.maximum = maximum;
    joined.total = std::fma(segment.total, share, joined.total * decay);
    for (int d = 0; d < size; d++) {
      float& value = joined.accumulator[size_t(d)];
      value = std::fma(segment.accumulator[size_t(d)], share, value * decay);
    }
  }
  return joined;
}

inline std::vector<float> divided(std::vector<float> values, float by) {
  const float inverse = 1.0f / by;
  for (float& value : values) value *= inverse;
  return values;
}

/** A query at `position` over blocks that follow each other in memory. */
inline AttentionTask taskOf(const std::vector<float>& query, const std::vector<int32_t>& table, const uint8_t* memory,
                            size_t blockBytes, int position) {
  AttentionTask task{};
  task.queries = query.data();
  task.rows = task.queryHeads = 1;
  task.queryStride = task.outputStride = query.size();
  task.position = position;
  task.headSize = int(query.size());
  // Small enough for many tokens to count.
  task.scale = 0.001f;
  task.blocks = table.data();
  task.base = memory;
  task.blockStride = blockBytes;
  return task;
}

inline std::vector<float> attendedBy(const KernelTable& kernels, KvType type, AttentionTask task) {
  std::vector<float> out(size_t(task.headSize)), scratch(attentionScratchFloats(task.headSize));
  task.outputs = out.data();
  task.scratch = scratch.data();
  kernels.attend(type, task);
  return out;
}

inline std::vector<int32_t> tableOf(int blocks) {
  std::vector<int32_t> table;
  for (int block = 0; block < blocks; block++) table.push_back(block);
  return table;
}

}  // namespace chairlift
