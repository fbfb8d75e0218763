// The tokens of one row in descending order of logit (ties: lower token first), sorted only as far as
// somebody looks. Tokens are gathered in wide bands from the top down, a band is dealt into narrow buckets,
// and a bucket is sorted when it is reached. Where bands and buckets lie changes the work, never the order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "sampler-passes.h"

namespace chairlift {

/** How many buckets make sorting each of them cheap, even where a whole vocabulary is dealt. */
inline int bucketsFor(int count) { return std::clamp(count / 8, 1, 16384); }

/**
 * Deals items into buckets, keeping their order within each: bucket b ends up in `out` before place `ends[b]`,
 * the first bucket from place `first` on.
 */
template <class Item, class BucketOf>
void deal(const std::vector<Item>& items, int count, int buckets, const BucketOf& bucketOf, int first,
          std::vector<Item>& out, std::vector<int>& ends) {
  ends.assign(size_t(buckets) + 1, 0);
  for (int i = 0; i < count; i++) ends[bucketOf(items[size_t(i)]) + 1]++;
  ends[0] = first;
  for (int bucket = 1; bucket <= buckets; bucket++) ends[size_t(bucket)] += ends[size_t(bucket) - 1];
  // Every item dealt moves its bucket's begin on, at last to the bucket's end.
  for (int i = 0; i < count; i++) out[size_t(ends[bucketOf(items[size_t(i)])]++)] = items[size_t(i)];
  ends.pop_back();
}

class CandidateOrder {
 public:
  /** All `count` tokens above -infinity. The logits must outlive the use. */
  void begin(const float* logits, int vocabSize, int count, Weighing weighing);

  /** Just these, given in any order, under the weighing given before; all may be looked at. */
  void assign(const std::vector<Ranked>& survivors);

  /** Only the first stay; all of them may be looked at. */
  void truncate(int count);

  int count() const { return count_; }

  /** Whether there is such a place; if so, it may be looked at from now on. */
  bool reach(int place) {
    if (place >= count_) return false;
    while (place >= known_) extend();
    return true;
  }
  Ranked at(int place) const { return ranked_[size_t(place)]; }
  double weight(int place) const { return weights_[size_t(place)]; }

 private:
  void extend();
  void gatherBand();
  void dealBuckets(int found);

  const float* logits_ = nullptr;
  int vocabSize_ = 0, count_ = 0, known_ = 0;
  Weighing weighing_{};
  // The next band lies at or below `upper_`, and reaches `width_` below the highest logit.
  float upper_ = 0, width_ = 0;
  /** Where the buckets of the band at hand end in `ranked_`; those before `bucket_` are sorted. */
  std::vector<int> bucketEnds_;
  size_t bucket_ = 0;
  std::vector<Ranked> ranked_, band_;
  std::vector<double> weights_;
  std::vector<float> bucketLogits_;
};

}  // namespace chairlift
