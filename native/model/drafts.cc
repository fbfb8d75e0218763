// See drafts.h.

#include "model/drafts.h"

#include <algorithm>

namespace chairlift {

namespace {

/** Keeps the values of some sequences, `each` for one: those at `kept`, which ascend. */
void keepValues(std::vector<int32_t>& values, const std::vector<size_t>& kept, size_t each) {
  if (values.empty()) return;
  for (size_t i = 0; i < kept.size(); i++) std::copy_n(values.begin() + kept[i] * each, each, values.begin() + i * each);
  values.resize(kept.size() * each);
}

/** The input of some of its sequences, which have a row each. */
void keepSequences(StepInput& input, const std::vector<size_t>& kept) {
  std::vector<int32_t> blocks, starts{0};
  for (const size_t sequence : kept) {
    blocks.insert(blocks.end(), input.blocks.begin() + input.blockStarts[sequence],
                  input.blocks.begin() + input.blockStarts[sequence + 1]);
    starts.push_back(int32_t(blocks.size()));
  }
  input.blocks = std::move(blocks);
  input.blockStarts = std::move(starts);
  input.rowStarts.resize(kept.size() + 1);
  keepValues(input.tokens, kept, 1);
  keepValues(input.starts, kept, 1);
  keepValues(input.adapters, kept, 1);
  keepValues(input.rotaryPositions, kept, 3);
  keepValues(input.imageEnds, kept, 1);
}

}  // namespace

void Drafts::draft(StepInput input, const Wanted& wanted, const Drafted& drafted) {
  std::vector<Going> going;
  size_t first = 0;
  for (size_t sequence = 0; sequence < wanted.rounds.size(); sequence++) {
    going.push_back({sequence, first, 0});
    first += size_t(wanted.rounds[sequence]);
  }
  for (size_t round = 0; !going.empty(); round++) {
    logits_.resize(going.size() * size_t(model_->vocabSize()));
    model_->predict(input, logits_.data());
    sampleRound(going, round, wanted.rows);
    std::vector<size_t> kept;
    std::vector<Going> goOn;
    for (size_t i = 0; i < going.size(); i++) {
      Going one = going[i];
      const SampledRow& sampled = sampled_[i];
      if (sampled.token < 0) continue;
      drafted.tokens[one.first + round] = sampled.token;
      drafted.logprobs[one.first + round] = sampled.logprob;
      one.logprob += double(sampled.logprob);
      if (round + 1 >= size_t(wanted.rounds[one.sequence]) || one.logprob < wanted.leastLogprob) continue;
      input.tokens[i] = sampled.token;
      input.starts[i]++;
      for (size_t axis = 0; axis < 3 && !input.rotaryPositions.empty(); axis++) input.rotaryPositions[3 * i + axis]++;
      kept.push_back(i);
      goOn.push_back(one);
    }
    if (kept.size() < going.size()) keepSequences(input, kept);
    going = std::move(goOn);
  }
}

void Drafts::sampleRound(const std::vector<Going>& going, size_t round, const std::vector<SamplingRow>& rows) {
  roundRows_.clear();
  for (const Going& one : going) roundRows_.push_back(rows[one.first + round]);
  sampled_.resize(going.size());
  sampler_.sample(logits_.data(), model_->vocabSize(), roundRows_, {sampled_.data(), nullptr, nullptr, 0});
}

}  // namespace chairlift
