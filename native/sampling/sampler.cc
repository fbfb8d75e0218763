// See sampler.h.

#include "sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sampling/exponential.h"

namespace chairlift {

namespace {

constexpr double greedyBelow = 1e-5;

bool hasPenalties(const SamplingRow& row) {
  return row.repetitionPenalty != 1 || row.presencePenalty != 0 || row.frequencyPenalty != 0;
}

int32_t firstHighest(const LogitRow& row) {
  int block = 0;
  while (row.tops[block] != row.highest) block++;
  int32_t token = block * blockLogits;
  while (row.logits[token] != row.highest) token++;
  return token;
}

int rankOf(const LogitRow& row, int32_t token) {
  const float own = row.logits[token];
  int before = 0;
  for (int32_t other = 0; other < row.count; other++) {
    before += (row.logits[other] > own) | ((row.logits[other] == own) & (other < token));
  }
  return before + 1;
}

}  // namespace

SampledRow RowSampler::sample(float* logits, int vocabSize, const SamplingRow& row, int32_t* topTokens,
                              float* topLogprobs) {
  const LogitRow own = summarize(logits, vocabSize);
  if (std::isnan(own.highest)) return {numericError, 0, 0, 0};
  if (own.highest == -infinity) return {noCandidate, 0, 0, 0};
  SampledRow sampled{0, 0, 0, 0};
  LogprobScale scale{};
  if (row.alternatives >= 0) {
    scale = logprobScale(own);
    for (const Ranked ranked : order_.first(row.alternatives)) {
      topTokens[sampled.alternatives] = tokenOf(ranked);
      topLogprobs[sampled.alternatives++] = scale.logprob(logits[tokenOf(ranked)]);
    }
  }
  sampled.token = row.given >= 0 ? row.given : choose(logits, own, row);
  if (sampled.token < 0) return {sampled.token, 0, 0, 0};
  if (row.given >= 0) sampled.rank = rankOf(own, row.given);
  if (row.alternatives >= 0) sampled.logprob = scale.logprob(logits[sampled.token]);
  return sampled;
}

LogitRow RowSampler::summarize(const float* logits, int vocabSize) {
  tops_.resize(size_t(vocabSize + blockLogits - 1) / blockLogits);
  const float highest = samplerPasses().summarize(logits, vocabSize, tops_.data());
  return {logits, vocabSize, tops_.data(), highest};
}

RowSampler::LogprobScale RowSampler::logprobScale(const LogitRow& own) {
  const Weighing weighing(own.highest, 1, own.count);
  order_.begin(own, weighing);
  const double mass = double(samplerPasses().sumWeights(own, weighing));
  return {own.highest, naturalLogarithm(std::ldexp(mass, -weighing.unitBits))};
}

/** The token, `numericError` or `noCandidate`. */
int32_t RowSampler::choose(float* logits, const LogitRow& own, const SamplingRow& row) {
  edit(logits, row);
  const LogitRow used = row.mask ? summarize(masked(logits, own.count, row.mask), own.count) : afterEdits(own);
  int32_t token;
  if (std::isnan(used.highest)) token = numericError;
  else if (used.highest == -infinity) token = noCandidate;
  else token = row.temperature < greedyBelow ? firstHighest(used) : sample(used, row);
  // In reverse: a token may have been edited twice.
  for (auto edit = edits_.rbegin(); edit != edits_.rend(); ++edit) logits[edit->token] = edit->before;
  return token;
}

/** Recomputes the blocks whose top may have changed: few tokens are the highest of their block. */
LogitRow RowSampler::afterEdits(const LogitRow& own) {
  for (const Edit& edit : edits_) {
    float& top = tops_[size_t(edit.token / blockLogits)];
    if (edit.before < top && own.logits[edit.token] <= top) continue;
    const int first = edit.token / blockLogits * blockLogits;
    top = samplerPasses().summarize(own.logits + first, std::min(blockLogits, own.count - first), &top);
    if (std::isnan(top)) return {own.logits, own.count, own.tops, top};
  }
  return {own.logits, own.count, own.tops, *std::max_element(tops_.begin(), tops_.end())};
}

int32_t RowSampler::sample(const LogitRow& used, const SamplingRow& row) {
  const Weighing weighing(used.highest, row.temperature, used.count);
  order_.begin(used, weighing);
  const int topK = row.topK > 0 ? row.topK : used.count;
  double mass;
  if (row.typicalP < 1) mass = order_.keepTypical(topK, row.typicalP);
  else if (topK < used.count) mass = order_.massOfFirst(topK);
  else mass = double(samplerPasses().sumWeights(used, weighing));
  if (row.topP < 1) mass = order_.massReaching(row.topP * mass);
  if (row.minP > 0) mass = std::min(mass, order_.massAbove(row.minP));
  return order_.tokenReaching(std::min(std::floor(row.uniform * mass) + 1, mass));
}

void RowSampler::edit(float* logits, const SamplingRow& row) {
  const int penalized = hasPenalties(row) ? row.penalized.length : 0;
  edits_.resize(size_t(row.biased.length + penalized + row.forbidden.length));
  Edit* edit = edits_.data();
  const auto replace = [&](int32_t token, float value) {
    *edit++ = {token, logits[token]};
    logits[token] = value;
  };
  for (int i = 0; i < row.biased.length; i++) {
    const int32_t token = row.biased.data[i];
    replace(token, logits[token] + float(row.biases.data[i]));
  }
  // In float32, each operation rounded, as the oracle has it: so that a GPU can do the same.
  const float factors[] = {float(1 / row.repetitionPenalty), float(row.repetitionPenalty)};
  const float presence = float(row.presencePenalty), frequency = float(row.frequencyPenalty);
  for (int i = 0; i < penalized; i++) {
    const int32_t token = row.penalized.data[i];
    const int generated = row.generated.data[i];
    const float logit = logits[token];
    const float taken = float(generated) * frequency + (generated > 0 ? presence : 0);
    // Signs are random: a branch would be mispredicted.
    replace(token, logit * factors[logit < 0] - taken);
  }
  for (int i = 0; i < row.forbidden.length; i++) replace(row.forbidden.data[i], -infinity);
}

const float* RowSampler::masked(const float* logits, int vocabSize, const uint32_t* mask) {
  masked_.assign(size_t(vocabSize), -infinity);
  for (int first = 0; first < vocabSize; first += 32) {
    const uint32_t allowed = mask[first / 32];
    if (allowed == 0) continue;
    for (int token = first; token < std::min(first + 32, vocabSize); token++) {
      if (allowed >> (token - first) & 1) masked_[size_t(token)] = logits[token];
    }
  }
  return masked_.data();
}

void Sampler::sample(float* logits, int vocabSize, const std::vector<SamplingRow>& rows, const Output& output) {
  pool_->forEach("sample", int(rows.size()), 1, [&](int begin, int end, int worker) {
    RowSampler& sampler = samplers_[size_t(worker)];
    for (int row = begin; row < end; row++) {
      output.rows[row] = sampler.sample(logits + size_t(row) * size_t(vocabSize), vocabSize, rows[size_t(row)],
                                        output.topTokens + size_t(row) * size_t(output.stride),
                                        output.topLogprobs + size_t(row) * size_t(output.stride));
    }
  });
}

}  // namespace chairlift
