// See sampler.h.

#include "sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "exponential.h"

namespace chairlift {

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr double greedyBelow = 1e-5;

bool hasPenalties(const SamplingRow& row) {
  return row.repetitionPenalty != 1 || row.presencePenalty != 0 || row.frequencyPenalty != 0;
}

bool needsAdjusting(const SamplingRow& row) {
  return row.biased.length > 0 || (hasPenalties(row) && row.penalized.length > 0) || row.forbidden.length > 0 ||
         row.mask;
}

void addBiases(float* logits, const SamplingRow& row) {
  for (int i = 0; i < row.biased.length; i++) {
    float& logit = logits[row.biased.data[i]];
    logit = float(double(logit) + row.biases.data[i]);
  }
}

void penalize(float* logits, const SamplingRow& row) {
  for (int i = 0; i < row.penalized.length; i++) {
    float& place = logits[row.penalized.data[i]];
    double logit = place;
    logit = logit < 0 ? logit * row.repetitionPenalty : logit / row.repetitionPenalty;
    const int generated = row.generated.data[i];
    if (generated > 0) logit = logit - generated * row.frequencyPenalty - row.presencePenalty;
    place = float(logit);
  }
}

void applyMask(float* logits, int vocabSize, const uint32_t* mask) {
  for (int first = 0; first < vocabSize; first += 32) {
    const uint32_t allowed = mask[first / 32];
    if (allowed == ~0u) continue;
    const int count = std::min(32, vocabSize - first);
    if (allowed == 0) {
      std::fill(logits + first, logits + first + count, -infinity);
      continue;
    }
    for (int bit = 0; bit < count; bit++) {
      if (!(allowed >> bit & 1)) logits[first + bit] = -infinity;
    }
  }
}

double scaledLogit(Ranked ranked, Weighing weighing) {
  return (double(logitOf(ranked)) - double(weighing.highest)) * weighing.inverseTemperature;
}

WeightSums sumInOrder(const CandidateOrder& order, Weighing weighing) {
  WeightSums sums{0, 0};
  for (int place = 0; place < order.count(); place++) {
    sums.total += order.weight(place);
    sums.moment += order.weight(place) * scaledLogit(order.at(place), weighing);
  }
  return sums;
}

/** Returns the survivors' total. */
double keepTopP(CandidateOrder& order, double total, double share) {
  const double mass = share * total;
  double sum = 0;
  for (int place = 0; order.reach(place); place++) {
    sum += order.weight(place);
    if (sum < mass) continue;
    if (place + 1 == order.count()) return total;
    order.truncate(place + 1);
    return sum;
  }
  return total;
}

/** Returns the survivors' total. */
double keepMinP(CandidateOrder& order, double total, double share) {
  double sum = 0, least = 0;
  for (int place = 0; order.reach(place); place++) {
    if (place == 0) least = share * order.weight(0);
    if (order.weight(place) < least) {
      order.truncate(place);
      return sum;
    }
    sum += order.weight(place);
  }
  return total;
}

int32_t drawToken(CandidateOrder& order, double total, double uniform) {
  const double target = uniform * total;
  double sum = 0;
  int lastWeighty = 0;
  for (int place = 0; order.reach(place); place++) {
    sum += order.weight(place);
    if (sum > target) return tokenOf(order.at(place));
    if (order.weight(place) > 0) lastWeighty = place;
  }
  return tokenOf(order.at(lastWeighty));
}

}  // namespace

SampledRow RowSampler::sample(const float* logits, int vocabSize, const SamplingRow& row, int32_t* topTokens,
                              float* topLogprobs) {
  const LogitSummary own = samplerPasses().summarize(logits, vocabSize);
  if (own.broken) return {numericError, 0, 0};
  const bool adjusting = needsAdjusting(row);
  if (adjusting) adjust(logits, vocabSize, row);
  const float* const used = adjusting ? adjusted_.data() : logits;
  const LogitSummary summary = adjusting ? samplerPasses().summarize(used, vocabSize) : own;
  if (summary.broken) return {numericError, 0, 0};
  if (summary.candidates == 0) return {noCandidate, 0, 0};

  SampledRow sampled{0, 0, 0};
  sampled.token = row.temperature < greedyBelow ? firstOf(used, vocabSize, summary.highest)
                                                : draw(used, vocabSize, summary, row);
  if (row.alternatives >= 0) reportLogprobs(logits, vocabSize, own, row, sampled, topTokens, topLogprobs);
  return sampled;
}

void RowSampler::adjust(const float* logits, int vocabSize, const SamplingRow& row) {
  adjusted_.assign(logits, logits + vocabSize);
  addBiases(adjusted_.data(), row);
  if (hasPenalties(row)) penalize(adjusted_.data(), row);
  for (int i = 0; i < row.forbidden.length; i++) adjusted_[size_t(row.forbidden.data[i])] = -infinity;
  if (row.mask) applyMask(adjusted_.data(), vocabSize, row.mask);
}

int32_t RowSampler::firstOf(const float* logits, int vocabSize, float logit) {
  ranked_.resize(size_t(vocabSize) + 1);
  samplerPasses().gather(logits, vocabSize, std::nextafter(logit, -infinity), logit, ranked_.data());
  return tokenOf(ranked_[0]);
}

int32_t RowSampler::draw(const float* logits, int vocabSize, const LogitSummary& summary, const SamplingRow& row) {
  const Weighing weighing{summary.highest, 1 / row.temperature};
  order_.begin(logits, vocabSize, summary.candidates, weighing);
  const bool whole = row.topK == 0 || row.topK >= summary.candidates;
  if (!whole) order_.truncate(row.topK);

  double total;
  if (whole && row.typicalP == 1) {
    total = samplerPasses().sumWeights(logits, vocabSize, weighing);
  } else {
    const WeightSums sums =
        whole ? samplerPasses().sumMoments(logits, vocabSize, weighing) : sumInOrder(order_, weighing);
    total = sums.total;
    if (row.typicalP < 1) total = keepTypical(logits, vocabSize, weighing, sums, row.typicalP, whole);
  }
  if (row.topP < 1) total = keepTopP(order_, total, row.topP);
  if (row.minP > 0) total = keepMinP(order_, total, row.minP);
  return drawToken(order_, total, row.uniform);
}

/** Returns the survivors' total. */
double RowSampler::keepTypical(const float* logits, int vocabSize, Weighing weighing, WeightSums sums, double share,
                               bool whole) {
  const int count = order_.count();
  ranked_.resize(size_t(vocabSize) + 1);
  if (whole) {
    samplerPasses().gather(logits, vocabSize, -infinity, infinity, ranked_.data());
  } else {
    for (int place = 0; place < count; place++) ranked_[size_t(place)] = order_.at(place);
  }
  ranked_.resize(size_t(count));
  logits_.resize(size_t(count));
  std::transform(ranked_.begin(), ranked_.end(), logits_.begin(), logitOf);
  deviations_.resize(size_t(count));
  weights_.resize(size_t(count));
  samplerPasses().deviate(logits_.data(), count, weighing, sums.moment / sums.total, deviations_.data());
  samplerPasses().weigh(logits_.data(), count, weighing, weights_.data());

  const int kept = countTypical(share * sums.total);
  if (kept == count) return sums.total;
  ranked_.resize(size_t(kept));
  std::transform(typical_.begin(), typical_.begin() + kept, ranked_.begin(), [](const Typical& t) { return t.ranked; });
  order_.assign(ranked_);
  return sumInOrder(order_, weighing).total;
}

/** Sorts the most typical first, bucket by bucket, until they hold the mass; returns how many that takes. */
int RowSampler::countTypical(double mass) {
  const int count = int(ranked_.size()), buckets = bucketsFor(count);
  double widest = 0;
  candidates_.resize(size_t(count));
  for (size_t i = 0; i < size_t(count); i++) {
    candidates_[i] = {deviations_[i], ranked_[i], weights_[i]};
    widest = std::max(widest, deviations_[i]);
  }
  // Whoever lies farther out is hardly ever reached and shares the last bucket.
  const double scale = widest > 0 ? buckets / std::min(widest, 32.0) : 0;
  const auto bucketOf = [&](const Typical& t) { return size_t(std::min(t.deviation * scale, double(buckets - 1))); };
  typical_.resize(size_t(count));
  deal(candidates_, count, buckets, bucketOf, 0, typical_, bucketEnds_);
  double sum = 0;
  int place = 0;
  for (const int end : bucketEnds_) {
    std::sort(typical_.begin() + place, typical_.begin() + end, [](const Typical& a, const Typical& b) {
      return a.deviation != b.deviation ? a.deviation < b.deviation : a.ranked < b.ranked;
    });
    for (; place < end; place++) {
      sum += typical_[size_t(place)].weight;
      if (sum >= mass) return place + 1;
    }
  }
  return count;
}

void RowSampler::reportLogprobs(const float* logits, int vocabSize, const LogitSummary& summary,
                                const SamplingRow& row, SampledRow& sampled, int32_t* topTokens, float* topLogprobs) {
  const Weighing weighing{summary.highest, 1};
  const double logTotal = naturalLogarithm(samplerPasses().sumWeights(logits, vocabSize, weighing));
  const auto logprobOf = [&](int32_t token) {
    return float(double(logits[token]) - double(summary.highest) - logTotal);
  };
  sampled.logprob = logprobOf(sampled.token);
  order_.begin(logits, vocabSize, summary.candidates, weighing);
  for (int place = 0; place < row.alternatives && order_.reach(place); place++) {
    topTokens[place] = tokenOf(order_.at(place));
    topLogprobs[place] = logprobOf(topTokens[place]);
    sampled.alternatives = place + 1;
  }
}

void Sampler::sample(const float* logits, int vocabSize, const std::vector<SamplingRow>& rows, const Output& output) {
  pool_.forEach(int(rows.size()), 1, [&](int begin, int end, int worker) {
    RowSampler& sampler = samplers_[size_t(worker)];
    for (int row = begin; row < end; row++) {
      output.rows[row] = sampler.sample(logits + size_t(row) * size_t(vocabSize), vocabSize, rows[size_t(row)],
                                        output.topTokens + size_t(row) * size_t(output.stride),
                                        output.topLogprobs + size_t(row) * size_t(output.stride));
    }
  });
}

}  // namespace chairlift
