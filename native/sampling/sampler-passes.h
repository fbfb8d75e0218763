// Passes over a whole vocabulary, in vector code of the best instruction set found at run time. No result
// depends on that choice: every logit is treated alone, nothing is contracted, and sums are of whole numbers.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "sampling/exponential.h"

namespace chairlift {

constexpr float infinity = std::numeric_limits<float>::infinity();

/** Passes read a block's highest logit first: most blocks hold nothing that could be sampled. */
constexpr int blockLogits = 128;

/** Places that gathering may write beyond what it finds. */
constexpr int gatherSlack = 16;

struct LogitRow {
  const float* logits;
  int count;
  /** Of every block of `blockLogits`, the highest. */
  const float* tops;
  /** Of all. NaN or +infinity where such is among them. */
  float highest;
};

/** Some tokens of a row, in no particular order. */
struct CandidateList {
  int count = 0;
  std::vector<int32_t> tokens;
  std::vector<float> logits, scaled, weights;

  /** Never shrinks: rows of one vocabulary have one size. */
  void reserve(int room);
};

struct ListSums {
  int64_t mass;
  /** Sum of weight x scaled, each rounded. */
  int64_t moment;
};

struct SamplerPasses {
  /** Fills `tops` and returns the highest; NaN where NaN or +infinity is among the logits. */
  float (*summarize)(const float* logits, int count, float* tops);
  int64_t (*sumWeights)(const LogitRow& row, const Weighing& weighing);
  /** Tokens and logits of those at or above `least`, by ascending token; returns how many. Needs `gatherSlack`. */
  int (*gather)(const LogitRow& row, float least, int32_t* tokens, float* logits);
  void (*weigh)(const float* logits, int count, const Weighing& weighing, float* scaled, float* weights);
  ListSums (*sumLists)(const float* scaled, const float* weights, int count);
  /** Distances from `origin`; returns the longest. */
  float (*measure)(const float* scaled, int count, float origin, float* distances);
  /** distance x scale, rounded down, but at most `last`. */
  void (*divide)(const float* distances, int count, float scale, int last, uint16_t* buckets);
  /** Takes the weight from everything in the buckets beyond the last. */
  void (*drop)(const uint16_t* buckets, int count, int last, float* weights);
};

const SamplerPasses& samplerPasses();

}  // namespace chairlift
