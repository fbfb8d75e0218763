// Drafts of a model's MTP head: rounds of one token for each sequence, each of which goes on from the tokens of the one before it.
#pragma once

#include <memory>
#include <vector>

#include "model/model.h"
#include "sampling/sampler.h"

namespace chairlift {

class Drafts {
 public:
  Drafts(std::shared_ptr<Model> model, std::shared_ptr<ThreadPool> pool) : model_(std::move(model)), sampler_(std::move(pool)) {}

  /** What is wanted: see `Backend.draft` in src/compute/backend.ts. */
  struct Wanted {
    // How many tokens each sequence gets at most.
    std::vector<int32_t> rounds;
    // For each of these, one sequence after the other, with no alternatives.
    std::vector<SamplingRow> rows;
    double leastLogprob;
  };
  /** A place for each row; from the end of a draft on they stay as they are. */
  struct Drafted {
    int32_t* tokens;
    float* logprobs;
  };
  /** `input` is that of `Model::predict`, for the first round. */
  void draft(StepInput input, const Wanted& wanted, const Drafted& drafted);

 private:
  /** A sequence whose draft goes on: its number, the place of its first token, and how likely all of them are. */
  struct Going {
    size_t sequence, first;
    double logprob;
  };

  void sampleRound(const std::vector<Going>& going, size_t round, const std::vector<SamplingRow>& rows);

  const std::shared_ptr<Model> model_;
  Sampler sampler_;
  // Of one round.
  std::vector<float> logits_;
  std::vector<SamplingRow> roundRows_;
  std::vector<SampledRow> sampled_;
};

}  // namespace chairlift
