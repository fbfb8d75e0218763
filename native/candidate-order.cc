// See candidate-order.h.

#include "candidate-order.h"

#include <limits>

namespace chairlift {

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

// Seldom is anything drawn below the first band.
constexpr float firstWidth = 8, widest = 128, growth = 1.5f;

/** Grows without shrinking: rows of one vocabulary come again and again. */
template <class T>
void reserve(std::vector<T>& values, int count) {
  if (values.size() < size_t(count)) values.resize(size_t(count));
}

}  // namespace

void CandidateOrder::begin(const float* logits, int vocabSize, int count, Weighing weighing) {
  logits_ = logits;
  vocabSize_ = vocabSize;
  count_ = count;
  known_ = 0;
  weighing_ = weighing;
  upper_ = infinity;
  width_ = firstWidth;
  bucketEnds_.clear();
  bucket_ = 0;
  reserve(ranked_, vocabSize);
  // A pass that gathers writes one place beyond what it finds.
  reserve(band_, vocabSize + 1);
  reserve(weights_, vocabSize);
}

void CandidateOrder::assign(const std::vector<Ranked>& survivors) {
  std::copy(survivors.begin(), survivors.end(), ranked_.begin());
  count_ = int(survivors.size());
  known_ = 0;
  bucketEnds_.assign(1, count_);
  bucket_ = 0;
  extend();
}

void CandidateOrder::truncate(int count) {
  reach(count - 1);
  count_ = count;
}

/** Sorts and weighs the next bucket. */
void CandidateOrder::extend() {
  while (bucket_ == bucketEnds_.size()) gatherBand();
  const int begin = known_, end = bucketEnds_[bucket_++];
  std::sort(ranked_.begin() + begin, ranked_.begin() + end);
  reserve(bucketLogits_, end - begin);
  for (int place = begin; place < end; place++) bucketLogits_[size_t(place - begin)] = logitOf(ranked_[size_t(place)]);
  samplerPasses().weigh(bucketLogits_.data(), end - begin, weighing_, weights_.data() + begin);
  known_ = end;
}

void CandidateOrder::gatherBand() {
  const float lower = width_ <= widest ? weighing_.highest - width_ : -infinity;
  dealBuckets(samplerPasses().gather(logits_, vocabSize_, lower, upper_, band_.data()));
  upper_ = lower;
  width_ *= growth;
}

/** Deals the band into buckets of equal width; whatever lies below `width_` joins the last one. */
void CandidateOrder::dealBuckets(int found) {
  const int buckets = bucketsFor(found);
  const double top = std::min(upper_, weighing_.highest), range = top - (double(weighing_.highest) - width_);
  // Among huge logits the band's width is lost in rounding: all go to the first bucket.
  const double scale = range > 0 ? buckets / range : 0;
  // Every step is monotone, so a lower logit never joins an earlier bucket.
  const auto bucketOf = [&](Ranked ranked) {
    return size_t(std::min((top - double(logitOf(ranked))) * scale, double(buckets - 1)));
  };
  deal(band_, found, buckets, bucketOf, known_, ranked_, bucketEnds_);
  bucket_ = 0;
}

}  // namespace chairlift
