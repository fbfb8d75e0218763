// What attention knows of a query between two blocks: its online softmax, within a segment and over those before it.
// Include after the ISA's vec-*.h and vec-math.h.
#pragma once

#include "kernels/kernels.h"

namespace {

using namespace chairlift;

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
  // Instead of `query` where KV is of four bits.
  const ByteGroup* groups;
  // Where the segment's state is kept, where it is not joined at once.
  float* kept;
  float* output;
  float* weights;
  SoftmaxState segment;
  SoftmaxState joined;
  // Tokens seen: positions first … last.
  int first;
  int last;

  bool sees(int start, int tokens) const { return last >= start && first < start + tokens; }
};

inline Vec toScores(Vec products, float scale, float softcapAt) {
  const Vec scores = products * Vec::set(scale);
  return softcapAt > 0 ? softcap(scores, softcapAt) : scores;
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

inline float* keptState(const AttentionTask& task, int segment, int query) {
  const size_t queries = size_t(task.rows) * size_t(task.queryHeads);
  return task.states + (size_t(segment) * queries + size_t(query)) * attentionStateFloats(task.valueSize());
}

inline void startSegment(QueryState& state, int paddedSize) {
  if (state.kept) state.segment.accumulator = state.kept + stateValuesAt;
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

inline void keepSegment(QueryState& state, int) {
  state.kept[0] = state.segment.maximum;
  state.kept[1] = state.segment.total;
}

/** Joins kept segments in the order in which one thread would have come to them. */
inline void joinKept(const AttentionTask& task, QueryState* states, int firstQuery, int count, int paddedSize) {
  for (int q = 0; q < count; q++) {
    for (int segment = states[q].first / segmentTokens; segment <= states[q].last / segmentTokens; segment++) {
      float* const kept = keptState(task, segment, firstQuery + q);
      states[q].segment = {kept[0], kept[1], kept + stateValuesAt};
      joinSegment(states[q], paddedSize);
    }
  }
}

}  // namespace
