// See sampler-passes.h. Every pass is written once and compiled for several instruction sets: a body that
// is always inlined takes on the target of the function around it.

#include "sampler-passes.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "exponential.h"

namespace chairlift {

namespace {

#define CHAIRLIFT_BODY __attribute__((always_inline)) inline

constexpr int lanes = 64;

CHAIRLIFT_BODY Ranked rank(float logit, int token) {
  // Adding zero turns -0 to 0, which is its equal.
  const float plain = logit + 0.0f;
  uint32_t bits;
  memcpy(&bits, &plain, sizeof bits);
  const uint32_t descending = bits >> 31 ? bits : ~bits & 0x7fffffffu;
  return uint64_t(descending) << 32 | uint32_t(token);
}

CHAIRLIFT_BODY double scaled(float logit, Weighing weighing) {
  return (double(logit) - double(weighing.highest)) * weighing.inverseTemperature;
}

CHAIRLIFT_BODY double fold(double (&sums)[lanes]) {
  for (int half = lanes / 2; half >= 1; half /= 2) {
    for (int lane = 0; lane < half; lane++) sums[lane] += sums[lane + half];
  }
  return sums[0];
}

CHAIRLIFT_BODY void summarizeLanes(const float* logits, int count, float* highest, int32_t* candidates,
                                   int32_t* broken) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (int lane = 0; lane < count; lane++) {
    const float logit = logits[lane];
    highest[lane] = logit > highest[lane] ? logit : highest[lane];
    candidates[lane] += logit > -infinity ? 1 : 0;
    broken[lane] |= logit < infinity ? 0 : 1;
  }
}

CHAIRLIFT_BODY LogitSummary summarizeBody(const float* logits, int count) {
  float highest[lanes];
  int32_t candidates[lanes] = {}, broken[lanes] = {};
  for (float& lane : highest) lane = -std::numeric_limits<float>::infinity();
  int i = 0;
  for (; i + lanes <= count; i += lanes) summarizeLanes(logits + i, lanes, highest, candidates, broken);
  summarizeLanes(logits + i, count - i, highest, candidates, broken);
  LogitSummary summary{highest[0], 0, false};
  for (int lane = 0; lane < lanes; lane++) {
    if (highest[lane] > summary.highest) summary.highest = highest[lane];
    summary.candidates += candidates[lane];
    summary.broken |= broken[lane] != 0;
  }
  return summary;
}

CHAIRLIFT_BODY void addWeights(const float* logits, int count, Weighing weighing, double* totals) {
  for (int lane = 0; lane < count; lane++) totals[lane] += exponential(scaled(logits[lane], weighing));
}

CHAIRLIFT_BODY double sumWeightsBody(const float* logits, int count, Weighing weighing) {
  double totals[lanes] = {};
  int i = 0;
  for (; i + lanes <= count; i += lanes) addWeights(logits + i, lanes, weighing, totals);
  addWeights(logits + i, count - i, weighing, totals);
  return fold(totals);
}

CHAIRLIFT_BODY void addMoments(const float* logits, int count, Weighing weighing, double* totals, double* moments) {
  for (int lane = 0; lane < count; lane++) {
    const double x = scaled(logits[lane], weighing), weight = exponential(x);
    totals[lane] += weight;
    // An excluded token's x is -infinity, which would make NaN of a weight of 0.
    moments[lane] += weight * unlessNegative(bitsOf(weight) - 1, x);
  }
}

CHAIRLIFT_BODY WeightSums sumMomentsBody(const float* logits, int count, Weighing weighing) {
  double totals[lanes] = {}, moments[lanes] = {};
  int i = 0;
  for (; i + lanes <= count; i += lanes) addMoments(logits + i, lanes, weighing, totals, moments);
  addMoments(logits + i, count - i, weighing, totals, moments);
  return {fold(totals), fold(moments)};
}

CHAIRLIFT_BODY void weighBody(const float* logits, int count, Weighing weighing, double* weights) {
  for (int i = 0; i < count; i++) weights[i] = exponential(scaled(logits[i], weighing));
}

CHAIRLIFT_BODY void deviateBody(const float* logits, int count, Weighing weighing, double mean, double* deviations) {
  for (int i = 0; i < count; i++) deviations[i] = std::fabs(scaled(logits[i], weighing) - mean);
}

/** Most stretches hold nothing above a threshold: a vector pass marks what counts, eight marks are skipped at once. */
CHAIRLIFT_BODY int gatherLanes(const float* logits, int first, int count, float above, float upTo, Ranked* out) {
  alignas(64) uint8_t marks[lanes] = {};
  for (int lane = 0; lane < count; lane++) {
    marks[lane] = uint8_t((logits[first + lane] > above) & (logits[first + lane] <= upTo));
  }
  int found = 0;
  for (int group = 0; group < lanes; group += 8) {
    uint64_t any;
    memcpy(&any, marks + group, sizeof any);
    if (any == 0) continue;
    const int end = std::min(first + group + 8, first + count);
    for (int token = first + group; token < end; token++) {
      out[found] = rank(logits[token], token);
      found += marks[token - first];
    }
  }
  return found;
}

CHAIRLIFT_BODY int gatherBody(const float* logits, int count, float above, float upTo, Ranked* out) {
  int found = 0, i = 0;
  for (; i + lanes <= count; i += lanes) found += gatherLanes(logits, i, lanes, above, upTo, out + found);
  return found + gatherLanes(logits, i, count - i, above, upTo, out + found);
}

#define CHAIRLIFT_PASSES(Name, TARGET)                                                                    \
  struct Name {                                                                                           \
    TARGET static LogitSummary summarize(const float* l, int n) { return summarizeBody(l, n); }           \
    TARGET static double sumWeights(const float* l, int n, Weighing w) { return sumWeightsBody(l, n, w); } \
    TARGET static WeightSums sumMoments(const float* l, int n, Weighing w) { return sumMomentsBody(l, n, w); } \
    TARGET static void weigh(const float* l, int n, Weighing w, double* out) { weighBody(l, n, w, out); } \
    TARGET static void deviate(const float* l, int n, Weighing w, double mean, double* out) {             \
      deviateBody(l, n, w, mean, out);                                                                    \
    }                                                                                                     \
    TARGET static int gather(const float* l, int n, float above, float upTo, Ranked* out) {               \
      return gatherBody(l, n, above, upTo, out);                                                          \
    }                                                                                                     \
    static constexpr SamplerPasses passes = {summarize, sumWeights, sumMoments, weigh, deviate, gather};   \
  };

CHAIRLIFT_PASSES(Plain, )
#if defined(__x86_64__)
CHAIRLIFT_PASSES(Avx2, __attribute__((target("avx2"))))
CHAIRLIFT_PASSES(Avx512, __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl"))))
#endif

const SamplerPasses& choosePasses() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl")) {
    return Avx512::passes;
  }
  if (__builtin_cpu_supports("avx2")) return Avx2::passes;
#endif
  return Plain::passes;
}

}  // namespace

const SamplerPasses& samplerPasses() {
  static const SamplerPasses& chosen = choosePasses();
  return chosen;
}

}  // namespace chairlift
