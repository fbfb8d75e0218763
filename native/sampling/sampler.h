// Samples one token per row of logits: the native twin of src/sampling/sampler.ts, which defines the order of stages. Same
// weights and exact sums, so the same tokens; but it reads only what a sample can reach.
#pragma once

#include <memory>
#include <vector>

#include "sampling/candidate-order.h"
#include "system/thread-pool.h"

namespace chairlift {

template <class T>
struct Slice {
  const T* data = nullptr;
  int length = 0;
};

struct SamplingRow {
  double temperature, topP, minP, typicalP;
  double repetitionPenalty, presencePenalty, frequencyPenalty;
  /** The random number of this row's sample, in [0, 1). */
  double uniform;
  /** 0: all. */
  int topK;
  /** How many alternatives to report; -1: no log-probabilities. */
  int alternatives;
  /** Tokens under penalties, and how often each was generated. */
  Slice<int32_t> penalized, generated;
  Slice<int32_t> biased;
  Slice<double> biases;
  Slice<int32_t> forbidden;
  /** One bit per token, set where it is allowed; null: all are. */
  const uint32_t* mask;
  /** A token that is not sampled but only scored; -1: none. */
  int given;
};

// In place of a token.
constexpr int32_t numericError = -1, noCandidate = -2;

struct SampledRow {
  int32_t token;
  float logprob;
  int alternatives;
  /** Of a given token: its place among all, from 1 on. */
  int rank;
};

class RowSampler {
 public:
  /**
   * Logits change while it works and are as before when it returns. `topTokens` and `topLogprobs` have room for
   * the alternatives asked for.
   */
  SampledRow sample(float* logits, int vocabSize, const SamplingRow& row, int32_t* topTokens, float* topLogprobs);

 private:
  struct LogprobScale {
    float highest;
    double logTotal;

    /** Adding zero turns -0 to 0. */
    float logprob(float logit) const { return float(double(logit) - double(highest) - logTotal + 0.0); }
  };
  struct Edit {
    int32_t token;
    float before;
  };

  LogitRow summarize(const float* logits, int vocabSize);
  LogprobScale logprobScale(const LogitRow& own);
  int32_t choose(float* logits, const LogitRow& own, const SamplingRow& row);
  void edit(float* logits, const SamplingRow& row);
  LogitRow afterEdits(const LogitRow& own);
  const float* masked(const float* logits, int vocabSize, const uint32_t* mask);
  int32_t sample(const LogitRow& used, const SamplingRow& row);

  std::vector<float> tops_, masked_;
  std::vector<Edit> edits_;
  CandidateOrder order_;
};

/** Rows are shared among the threads of a pool, a model's or one of its own; none can affect another. */
class Sampler {
 public:
  explicit Sampler(std::shared_ptr<ThreadPool> pool) : pool_(std::move(pool)), samplers_(size_t(pool_->threads())) {}

  struct Output {
    SampledRow* rows;
    /** `stride` places per row. */
    int32_t* topTokens;
    float* topLogprobs;
    int stride;
  };
  void sample(float* logits, int vocabSize, const std::vector<SamplingRow>& rows, const Output& output);

 private:
  const std::shared_ptr<ThreadPool> pool_;
  std::vector<RowSampler> samplers_;
};

}  // namespace chairlift
