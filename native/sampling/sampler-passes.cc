// See sampler-passes.h. Every pass is written once and compiled for several instruction sets: a body that
// is always inlined takes on the target of the function around it. Reductions are of integers, which compilers
// may reorder, so they become vector code too.

#include "sampling/sampler-passes.h"

#include <cmath>
#include <limits>

#include "system/x86-features.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace chairlift {

void CandidateList::reserve(int room) {
  if (tokens.size() >= size_t(room)) return;
  tokens.resize(size_t(room));
  logits.resize(size_t(room));
  scaled.resize(size_t(room));
  weights.resize(size_t(room));
}

namespace {

#define CHAIRLIFT_BODY __attribute__((always_inline)) inline

/** A float's bits turned so that they sort as integers; its own inverse. */
CHAIRLIFT_BODY int32_t turned(int32_t bits) { return bits ^ ((bits >> 31) & 0x7fffffff); }

struct Range {
  int32_t lowest, highest;
};

CHAIRLIFT_BODY Range rangeOf(const float* logits, int count) {
  Range range{std::numeric_limits<int32_t>::max(), std::numeric_limits<int32_t>::min()};
  for (int i = 0; i < count; i++) {
    // Adding zero turns -0 to 0, which is its equal.
    const int32_t key = turned(bitsAs<int32_t>(logits[i] + 0.0f));
    range.lowest = key < range.lowest ? key : range.lowest;
    range.highest = key > range.highest ? key : range.highest;
  }
  return range;
}

CHAIRLIFT_BODY float summarizeBody(const float* logits, int count, float* tops) {
  Range all = rangeOf(logits, 0);
  const auto add = [&](Range range, float& top) __attribute__((always_inline)) {
    all.lowest = std::min(all.lowest, range.lowest);
    all.highest = std::max(all.highest, range.highest);
    top = bitsAs<float>(turned(range.highest));
  };
  int i = 0;
  for (; i + blockLogits <= count; i += blockLogits) add(rangeOf(logits + i, blockLogits), *tops++);
  if (i < count) add(rangeOf(logits + i, count - i), *tops);
  // NaN lies beyond both infinities, by its sign.
  const bool broken =
      all.highest >= turned(bitsAs<int32_t>(infinity)) || all.lowest < turned(bitsAs<int32_t>(-infinity));
  return broken ? std::numeric_limits<float>::quiet_NaN() : bitsAs<float>(turned(all.highest));
}

/** Whole numbers as bits of doubles: what they have too much is taken off at the end. */
CHAIRLIFT_BODY uint64_t sumBlock(const float* logits, int count, Weighing weighing, float least) {
  uint64_t sum = 0;
  for (int i = 0; i < count; i++) {
    const float weight = roughWeight(scaledLogit(logits[i], weighing), weighing.unitBits, least);
    sum += bitsAs<uint64_t>(double(weight) + doubleRounder);
  }
  return sum - uint64_t(count) * doubleRounderBits;
}

/** The same for a block whose weights are all below 2^22, in numbers of half the size: twice as many at a time. */
CHAIRLIFT_BODY uint64_t sumFaintBlock(const float* logits, Weighing weighing, float least) {
  uint32_t sum = 0;
  for (int i = 0; i < blockLogits; i++) {
    const float weight = roughWeight(scaledLogit(logits[i], weighing), weighing.unitBits, least);
    sum += bitsAs<uint32_t>(weight + floatRounder);
  }
  return sum - uint32_t(blockLogits) * floatRounderBits;
}

CHAIRLIFT_BODY int64_t sumWeightsBody(const LogitRow& row, Weighing weighing) {
  const float least = weighing.leastScaled(), faint = float(21 - weighing.unitBits);
  uint64_t sum = 0;
  const float* top = row.tops;
  int i = 0;
  for (; i + blockLogits <= row.count; i += blockLogits, top++) {
    const float scaled = scaledLogit(*top, weighing);
    if (scaled >= faint) sum += sumBlock(row.logits + i, blockLogits, weighing, least);
    else if (scaled >= least) sum += sumFaintBlock(row.logits + i, weighing, least);
  }
  return int64_t(sum + sumBlock(row.logits + i, row.count - i, weighing, least));
}

/** A vector pass marks what counts, eight marks are skipped at once. */
struct GatherMarked {
  CHAIRLIFT_BODY static int block(const float* logits, int first, int count, float least, int32_t* tokens, float* out) {
    alignas(64) uint8_t marks[blockLogits] = {};
    for (int i = 0; i < count; i++) marks[i] = logits[first + i] >= least;
    int found = 0;
    for (int group = 0; group < count; group += 8) {
      uint64_t any;
      memcpy(&any, marks + group, sizeof any);
      if (any == 0) continue;
      for (int i = group; i < std::min(group + 8, count); i++) {
        tokens[found] = first + i;
        out[found] = logits[first + i];
        found += marks[i];
      }
    }
    return found;
  }
};

#if defined(__x86_64__)
struct GatherCompressed {
  __attribute__((target("avx512f"))) static int block(const float* logits, int first, int count, float least,
                                                      int32_t* tokens, float* out) {
    int found = 0;
    for (int i = 0; i < count; i += 16) {
      const __mmask16 within = __mmask16(count - i < 16 ? (1u << (count - i)) - 1 : 0xffffu);
      const __m512 values = _mm512_maskz_loadu_ps(within, logits + first + i);
      const __mmask16 marks = _mm512_mask_cmp_ps_mask(within, values, _mm512_set1_ps(least), _CMP_GE_OQ);
      if (marks == 0) continue;
      const __m512i places = _mm512_add_epi32(_mm512_set1_epi32(first + i),
                                              _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
      _mm512_storeu_ps(out + found, _mm512_maskz_compress_ps(marks, values));
      _mm512_storeu_si512(tokens + found, _mm512_maskz_compress_epi32(marks, places));
      found += __builtin_popcount(marks);
    }
    return found;
  }
};
#endif

template <class Gather>
CHAIRLIFT_BODY int gatherBody(const LogitRow& row, float least, int32_t* tokens, float* logits) {
  int found = 0, i = 0;
  const float* top = row.tops;
  for (; i + blockLogits <= row.count; i += blockLogits, top++) {
    if (*top < least) continue;
    found += Gather::block(row.logits, i, blockLogits, least, tokens + found, logits + found);
  }
  return found + Gather::block(row.logits, i, row.count - i, least, tokens + found, logits + found);
}

CHAIRLIFT_BODY void weighBody(const float* logits, int count, Weighing weighing, float* scaled, float* weights) {
  const float least = weighing.leastScaled();
  for (int i = 0; i < count; i++) {
    scaled[i] = scaledLogit(logits[i], weighing);
    weights[i] = float(double(roughWeight(scaled[i], weighing.unitBits, least)) + doubleRounder - doubleRounder);
  }
}

CHAIRLIFT_BODY ListSums sumListsBody(const float* scaled, const float* weights, int count) {
  uint64_t mass = 0, moment = 0;
  for (int i = 0; i < count; i++) {
    const double weight = weights[i];
    mass += bitsAs<uint64_t>(weight + doubleRounder);
    moment += bitsAs<uint64_t>(weight * double(scaled[i]) + doubleRounder);
  }
  const uint64_t excess = uint64_t(count) * doubleRounderBits;
  return {int64_t(mass - excess), int64_t(moment - excess)};
}

CHAIRLIFT_BODY float measureBody(const float* scaled, int count, float origin, float* distances) {
  int32_t longest = 0;
  for (int i = 0; i < count; i++) {
    distances[i] = std::fabs(scaled[i] - origin);
    longest = std::max(longest, bitsAs<int32_t>(distances[i]));
  }
  return bitsAs<float>(longest);
}

CHAIRLIFT_BODY void divideBody(const float* distances, int count, float scale, int last, uint16_t* buckets) {
  const float lastBucket = float(last);
  for (int i = 0; i < count; i++) {
    const float place = distances[i] * scale;
    buckets[i] = uint16_t(int32_t(place < lastBucket ? place : lastBucket));
  }
}

CHAIRLIFT_BODY void dropBody(const uint16_t* buckets, int count, int last, float* weights) {
  for (int i = 0; i < count; i++) weights[i] = buckets[i] > last ? 0 : weights[i];
}

#define CHAIRLIFT_PASSES(Name, Gather, TARGET)                                                                          \
  struct Name {                                                                                                      \
    TARGET static float summarize(const float* l, int n, float* tops) { return summarizeBody(l, n, tops); }          \
    TARGET static int64_t sumWeights(const LogitRow& row, const Weighing& w) { return sumWeightsBody(row, w); }      \
    TARGET static int gather(const LogitRow& row, float least, int32_t* tokens, float* logits) {                     \
      return gatherBody<Gather>(row, least, tokens, logits);                                                         \
    }                                                                                                                \
    TARGET static void weigh(const float* l, int n, const Weighing& w, float* scaled, float* weights) {              \
      weighBody(l, n, w, scaled, weights);                                                                           \
    }                                                                                                                \
    TARGET static ListSums sumLists(const float* scaled, const float* weights, int n) {                              \
      return sumListsBody(scaled, weights, n);                                                                       \
    }                                                                                                                \
    TARGET static float measure(const float* scaled, int n, float origin, float* distances) {                        \
      return measureBody(scaled, n, origin, distances);                                                              \
    }                                                                                                                \
    TARGET static void divide(const float* distances, int n, float scale, int last, uint16_t* buckets) {             \
      divideBody(distances, n, scale, last, buckets);                                                                \
    }                                                                                                                \
    TARGET static void drop(const uint16_t* buckets, int n, int last, float* weights) {                              \
      dropBody(buckets, n, last, weights);                                                                           \
    }                                                                                                                \
    static constexpr SamplerPasses passes = {summarize, sumWeights, gather, weigh, sumLists, measure, divide, drop}; \
  };

CHAIRLIFT_PASSES(Plain, GatherMarked, )
#if defined(__x86_64__)
CHAIRLIFT_PASSES(Avx2, GatherMarked, __attribute__((target("avx2"))))
CHAIRLIFT_PASSES(Avx512, GatherCompressed, __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl"))))
#endif

const SamplerPasses& choosePasses() {
#if defined(__x86_64__)
  if (x86Features().avx512) return Avx512::passes;
  if (x86Features().avx2) return Avx2::passes;
#endif
  return Plain::passes;
}

}  // namespace

const SamplerPasses& samplerPasses() {
  static const SamplerPasses& chosen = choosePasses();
  return chosen;
}

}  // namespace chairlift
