// See mass-order.h.

#include "sampling/mass-order.h"

#include <algorithm>

namespace chairlift {

namespace {

// Few enough that their sums stay in the first-level cache, enough that sorting one is cheap.
constexpr int mostBuckets = 2048;

/** What lies farther from the origin weighs nothing, or next to nothing: it shares the last bucket. */
constexpr float farthest = 48;

// Below this, dividing by the range would overflow; then all share one bucket.
constexpr float leastRange = 1e-30f;

}  // namespace

void MassOrder::assign(CandidateList& list, float origin) {
  list_ = &list;
  const size_t count = size_t(list.count);
  if (distances_.size() < count) {
    distances_.resize(count);
    bucketOf_.resize(count);
  }
  const float longest = samplerPasses().measure(list.scaled.data(), list.count, origin, distances_.data());
  const float range = std::min(longest, farthest);
  const int buckets = std::clamp(list.count / 8, 1, mostBuckets);
  const float scale = range > leastRange ? float(buckets) / range : 0;
  // Every step is monotone, so what is farther away never joins an earlier bucket.
  samplerPasses().divide(distances_.data(), list.count, scale, buckets - 1, bucketOf_.data());
  buckets_.assign(size_t(buckets), {0, 0});
  for (size_t place = 0; place < count; place++) {
    Bucket& bucket = buckets_[bucketOf_[place]];
    bucket.mass += list.weights[place];
    bucket.count++;
  }
}

MassOrder::Prefix MassOrder::withMass(double mass) {
  Prefix prefix{0, 0, 0};
  while (prefix.mass + buckets_[size_t(prefix.bucket)].mass < mass) {
    prefix.mass += buckets_[size_t(prefix.bucket++)].mass;
  }
  sortBucket(prefix.bucket);
  while (prefix.mass < mass) prefix.mass += list_->weights[size_t(sorted_[size_t(prefix.within++)].place)];
  return prefix;
}

MassOrder::Prefix MassOrder::withCount(int count) {
  Prefix prefix{0, 0, 0};
  int taken = 0;
  while (taken + buckets_[size_t(prefix.bucket)].count < count) {
    taken += buckets_[size_t(prefix.bucket)].count;
    prefix.mass += buckets_[size_t(prefix.bucket++)].mass;
  }
  sortBucket(prefix.bucket);
  for (; taken < count; taken++) prefix.mass += list_->weights[size_t(sorted_[size_t(prefix.within++)].place)];
  return prefix;
}

void MassOrder::ranksOf(const Prefix& prefix, std::vector<Ranked>& ranks) const {
  ranks.clear();
  for (size_t place = 0; prefix.bucket > 0 && place < size_t(list_->count); place++) {
    if (bucketOf_[place] < prefix.bucket) ranks.push_back(rank(list_->logits[place], list_->tokens[place]));
  }
  std::sort(ranks.begin(), ranks.end());
  for (int i = 0; i < prefix.within; i++) ranks.push_back(sorted_[size_t(i)].ranked);
}

void MassOrder::dropBeyond(const Prefix& prefix) {
  samplerPasses().drop(bucketOf_.data(), list_->count, prefix.bucket, list_->weights.data());
  for (size_t i = size_t(prefix.within); i < sorted_.size(); i++) list_->weights[size_t(sorted_[i].place)] = 0;
}

void MassOrder::sortBucket(int bucket) {
  sorted_.clear();
  for (int place = 0; place < list_->count; place++) {
    if (bucketOf_[size_t(place)] != bucket) continue;
    const float logit = list_->logits[size_t(place)];
    sorted_.push_back({distances_[size_t(place)], place, rank(logit, list_->tokens[size_t(place)])});
  }
  std::sort(sorted_.begin(), sorted_.end(), [](const Entry& a, const Entry& b) {
    return a.distance != b.distance ? a.distance < b.distance : a.ranked < b.ranked;
  });
}

}  // namespace chairlift
