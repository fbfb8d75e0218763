// See candidate-order.h.

#include "sampling/candidate-order.h"

#include <algorithm>
#include <functional>
#include <limits>

namespace chairlift {

namespace {

constexpr float lowest = std::numeric_limits<float>::lowest();

// Depths below the highest logit, in scaled logits. Seldom is anything sampled below the first; below the last,
// which is beyond every `leastScaled`, nothing weighs anything.
constexpr float firstDepth = 10, growth = 2.2f, lastDepth = 48;

/** A smaller share of the first weight than this excludes nothing. */
constexpr double leastShare = 1.0 / 18446744073709551616.0;

constexpr double log2e = 1.4426950408889634;

}  // namespace

void CandidateOrder::begin(const LogitRow& row, const Weighing& weighing) {
  row_ = row;
  weighing_ = weighing;
  least_ = infinity;
  depth_ = 0;
  weightless_ = std::max(row.highest - lastDepth / weighing.slope, lowest);
  list_.count = 0;
  mass_ = 0;
  sortedOut_ = false;
}

double CandidateOrder::massOfFirst(int count) {
  gatherFirst(count);
  return list_.count > count ? firstTokens(count).mass : mass_;
}

double CandidateOrder::massAbove(double share) {
  if (list_.count == 0) gatherMore();
  float first = -infinity;
  for (size_t place = 0; place < size_t(list_.count); place++) {
    if (list_.weights[place] > 0) first = std::max(first, list_.scaled[place]);
  }
  const float least = float(double(first) - naturalLogarithm(1 / std::max(share, leastShare)) * log2e);
  while (!complete() && scaledLogit(least_, weighing_) >= least) gatherMore();
  double mass = 0;
  for (size_t place = 0; place < size_t(list_.count); place++) {
    if (list_.scaled[place] >= least) mass += list_.weights[place];
  }
  return mass;
}

double CandidateOrder::keepTypical(int count, double share) {
  const auto keep = [&](const MassOrder::Prefix& prefix) {
    order_.dropBeyond(prefix);
    mass_ = prefix.mass;
    sortedOut_ = false;
  };
  if (count < row_.count) gatherFirst(count);
  else gather(weightless_);
  if (list_.count > count) keep(firstTokens(count));
  const auto sums = samplerPasses().sumLists(list_.scaled.data(), list_.weights.data(), list_.count);
  order_.assign(list_, float(double(sums.moment) / mass_));
  keep(order_.withMass(share * mass_));
  least_ = lowest;
  return mass_;
}

const std::vector<Ranked>& CandidateOrder::first(int count) {
  gatherFirst(count);
  if (list_.count < count) gather(lowest);
  order_.ranksOf(firstTokens(std::min(count, list_.count)), first_);
  return first_;
}

MassOrder::Prefix CandidateOrder::reach(double mass) {
  while (mass_ < mass) gatherMore();
  sortOut();
  return order_.withMass(mass);
}

MassOrder::Prefix CandidateOrder::firstTokens(int count) {
  sortOut();
  return order_.withCount(count);
}

/** Gathers at least `count` candidates, or all that weigh anything. */
void CandidateOrder::gatherFirst(int count) {
  const int blocks = (row_.count + blockLogits - 1) / blockLogits;
  if (count > 0 && count <= blocks) {
    // That many blocks have a token at or above the top of the last of them.
    tops_.assign(row_.tops, row_.tops + blocks);
    std::nth_element(tops_.begin(), tops_.begin() + count - 1, tops_.end(), std::greater<float>());
    gather(std::max(tops_[size_t(count) - 1], weightless_));
  }
  while (list_.count < count && !complete()) gatherMore();
}

void CandidateOrder::gatherMore() {
  // Among huge logits a depth may be lost in rounding: it grows all the same.
  const float reached = std::max(depth_, (row_.highest - least_) * weighing_.slope);
  depth_ = std::max(firstDepth, growth * reached);
  gather(depth_ < lastDepth ? row_.highest - depth_ / weighing_.slope : weightless_);
}

void CandidateOrder::gather(float least) {
  least_ = least;
  list_.reserve(row_.count + gatherSlack);
  list_.count = samplerPasses().gather(row_, least, list_.tokens.data(), list_.logits.data());
  samplerPasses().weigh(list_.logits.data(), list_.count, weighing_, list_.scaled.data(), list_.weights.data());
  mass_ = double(samplerPasses().sumLists(list_.scaled.data(), list_.weights.data(), list_.count).mass);
  sortedOut_ = false;
}

void CandidateOrder::sortOut() {
  if (!sortedOut_) order_.assign(list_, 0);
  sortedOut_ = true;
}

}  // namespace chairlift
