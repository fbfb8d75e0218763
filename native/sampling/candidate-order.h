// The tokens of one row in descending order of logit (ties: lower token first), gathered from the top only as far down as needed.
// The stages are those of src/sampling/candidates.ts. All but one keep the first tokens only, so the mass that stays says all.
#pragma once

#include <vector>

#include "sampling/mass-order.h"

namespace chairlift {

class CandidateOrder {
 public:
  /** All tokens above -infinity. The row must outlive the use. */
  void begin(const LogitRow& row, const Weighing& weighing);

  /** The mass of the first tokens, or of all if they are fewer. */
  double massOfFirst(int count);

  /** The mass of the fewest first tokens that have at least this much. */
  double massReaching(double mass) { return reach(mass).mass; }

  /** The last of them. */
  int32_t tokenReaching(double mass) { return list_.tokens[size_t(order_.lastOf(reach(mass)))]; }

  /** The mass of the tokens with at least this share of the first one's weight. */
  double massAbove(double share);

  /** Of the first tokens only those nearest to their mean stay, as many as hold the share; returns their mass. */
  double keepTypical(int count, double share);

  /** The first tokens, or all if they are fewer, in order. */
  const std::vector<Ranked>& first(int count);

 private:
  MassOrder::Prefix reach(double mass);
  MassOrder::Prefix firstTokens(int count);
  void gatherFirst(int count);
  void gatherMore();
  void gather(float least);
  void sortOut();
  /** Whether all that was not gathered weighs nothing. */
  bool complete() const { return least_ <= weightless_; }

  LogitRow row_{};
  Weighing weighing_{};
  /** Every token at or above it is in the list. */
  float least_ = 0;
  /** How far below the highest logit candidates were gathered, in scaled logits. */
  float depth_ = 0;
  /** Logits below it weigh nothing. */
  float weightless_ = 0;
  CandidateList list_;
  double mass_ = 0;
  MassOrder order_;
  bool sortedOut_ = false;
  std::vector<float> tops_;
  std::vector<Ranked> first_;
};

}  // namespace chairlift
