// Draws one token per row of logits: the native twin of src/engine/sampling/sampler.ts, which says in what
// order things happen and why. Same operations in the same order, so the same bits; but it sorts only the
// tokens a draw can reach.
#pragma once

#include <vector>

#include "candidate-order.h"
#include "thread-pool.h"

namespace chairlift {

template <class T>
struct Slice {
  const T* data = nullptr;
  int length = 0;
};

struct SamplingRow {
  double temperature, topP, minP, typicalP;
  double repetitionPenalty, presencePenalty, frequencyPenalty;
  /** The random number of this row's draw, in [0, 1). */
  double uniform;
  /** 0: all. */
  int topK;
  /** How many alternatives to report with log-probabilities; -1: no log-probabilities at all. */
  int alternatives;
  /** Tokens under penalties, and how often each was generated. */
  Slice<int32_t> penalized, generated;
  Slice<int32_t> biased;
  Slice<double> biases;
  Slice<int32_t> forbidden;
  /** One bit per token, set where it is allowed; null: all are. */
  const uint32_t* mask;
};

// In place of a token.
constexpr int32_t numericError = -1, noCandidate = -2;

struct SampledRow {
  int32_t token;
  float logprob;
  int alternatives;
};

/** Works on one row after another and keeps its scratch memory. */
class RowSampler {
 public:
  /** `topTokens` and `topLogprobs` have room for the alternatives asked for. */
  SampledRow sample(const float* logits, int vocabSize, const SamplingRow& row, int32_t* topTokens,
                    float* topLogprobs);

 private:
  void adjust(const float* logits, int vocabSize, const SamplingRow& row);
  int32_t firstOf(const float* logits, int vocabSize, float logit);
  int32_t draw(const float* logits, int vocabSize, const LogitSummary& summary, const SamplingRow& row);
  double keepTypical(const float* logits, int vocabSize, Weighing weighing, WeightSums sums, double share, bool whole);
  int countTypical(double mass);
  void reportLogprobs(const float* logits, int vocabSize, const LogitSummary& summary, const SamplingRow& row,
                      SampledRow& sampled, int32_t* topTokens, float* topLogprobs);

  std::vector<float> adjusted_;
  CandidateOrder order_;

  struct Typical {
    double deviation;
    Ranked ranked;
    double weight;
  };
  std::vector<Ranked> ranked_;
  std::vector<float> logits_;
  std::vector<double> deviations_, weights_;
  std::vector<Typical> candidates_, typical_;
  std::vector<int> bucketEnds_;
};

/** Rows are shared among threads; none can affect another. */
class Sampler {
 public:
  explicit Sampler(int threads) : pool_(threads), samplers_(size_t(pool_.threads())) {}

  struct Output {
    SampledRow* rows;
    /** `stride` places per row. */
    int32_t* topTokens;
    float* topLogprobs;
    int stride;
  };
  void sample(const float* logits, int vocabSize, const std::vector<SamplingRow>& rows, const Output& output);

 private:
  ThreadPool pool_;
  std::vector<RowSampler> samplers_;
};

}  // namespace chairlift
