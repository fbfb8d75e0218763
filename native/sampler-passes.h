// Passes over a whole vocabulary, in vector code of the best instruction set found at run time. No result
// depends on that choice: sums run in 64 lanes by index, folded in halves, and nothing is contracted.
#pragma once

#include <cstdint>
#include <cstring>

namespace chairlift {

/**
 * A token and its logit in one number whose ascending order is the candidates' order: higher logits first,
 * then lower tokens. The upper half is the logit's bits turned so that they sort as unsigned numbers.
 */
using Ranked = uint64_t;

inline int32_t tokenOf(Ranked ranked) { return int32_t(uint32_t(ranked)); }

inline float logitOf(Ranked ranked) {
  const uint32_t descending = uint32_t(ranked >> 32);
  const uint32_t bits = descending >> 31 ? descending : ~descending & 0x7fffffffu;
  float logit;
  memcpy(&logit, &bits, sizeof logit);
  return logit;
}

struct LogitSummary {
  /** NaN is passed over. */
  float highest;
  /** How many are above -infinity. */
  int candidates;
  /** NaN or +infinity is among them. */
  bool broken;
};

/** How logits become weights: e^((logit - highest) / temperature). */
struct Weighing {
  float highest;
  double inverseTemperature;
};

struct WeightSums {
  double total;
  /** Sum of weight x scaled logit. */
  double moment;
};

struct SamplerPasses {
  LogitSummary (*summarize)(const float* logits, int count);
  double (*sumWeights)(const float* logits, int count, Weighing weighing);
  WeightSums (*sumMoments)(const float* logits, int count, Weighing weighing);
  void (*weigh)(const float* logits, int count, Weighing weighing, double* weights);
  /** Distances of scaled logits from `mean`. */
  void (*deviate)(const float* logits, int count, Weighing weighing, double mean, double* deviations);
  /** Collects the tokens with above < logit <= upTo, by ascending token; returns how many. */
  int (*gather)(const float* logits, int count, float above, float upTo, Ranked* out);
};

const SamplerPasses& samplerPasses();

}  // namespace chairlift
