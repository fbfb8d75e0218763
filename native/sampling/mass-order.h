// Candidates in the order of their distance from some point, asked for by the mass that lies before them. They
// are dealt into buckets by distance; only the bucket in which an answer lies is ever sorted.
#pragma once

#include <cstdint>
#include <vector>

#include "sampling/sampler-passes.h"

namespace chairlift {

/**
 * A token and its logit in one number whose ascending order is the candidates' order: higher logits first,
 * then lower tokens. The upper half is the logit's bits turned so that they sort as unsigned numbers.
 */
using Ranked = uint64_t;

inline int32_t tokenOf(Ranked ranked) { return int32_t(uint32_t(ranked)); }

inline Ranked rank(float logit, int32_t token) {
  // Adding zero turns -0 to 0, which is its equal.
  const uint32_t bits = bitsAs<uint32_t>(logit + 0.0f);
  return uint64_t(bits >> 31 ? bits : ~bits & 0x7fffffffu) << 32 | uint32_t(token);
}

class MassOrder {
 public:
  /** The first candidates, up to some place. Stands until the next question. */
  struct Prefix {
    /** All of the buckets before it, and of its own the first `within`. */
    int bucket, within;
    double mass;
  };

  /** By distance of `scaled` from `origin`, then by rank. The list must outlive the use. */
  void assign(CandidateList& list, float origin);

  /** The fewest first candidates that have the mass: above 0, and at most what the whole list has. */
  Prefix withMass(double mass);

  /** At most as many as there are. */
  Prefix withCount(int count);

  /** The last candidate of a prefix, as its place in the list. */
  int lastOf(const Prefix& prefix) const { return sorted_[size_t(prefix.within) - 1].place; }

  /** All candidates of a prefix, in order. */
  void ranksOf(const Prefix& prefix, std::vector<Ranked>& ranks) const;

  /** Takes the weight from all candidates beyond a prefix. The order must be assigned anew. */
  void dropBeyond(const Prefix& prefix);

 private:
  struct Bucket {
    double mass;
    int count;
  };
  struct Entry {
    float distance;
    int place;
    Ranked ranked;
  };
  void sortBucket(int bucket);

  CandidateList* list_ = nullptr;
  std::vector<float> distances_;
  std::vector<uint16_t> bucketOf_;
  std::vector<Bucket> buckets_;
  std::vector<Entry> sorted_;
};

}  // namespace chairlift
