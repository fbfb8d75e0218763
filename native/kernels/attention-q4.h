// Attention over KV of four bits. Queries, and weights of a block, become bytes in groups of 32, so that sums over a group are sums of
// whole numbers, exact in any order; scales are multiplied after them.
// Include after the ISA's vec-*.h, codes-*.h and vec-math.h.
#pragma once

#include "kernels/kv-block.h"
#include "kernels/q4-kv.h"
#include "kernels/repeat.h"
#include "kernels/softmax-state.h"

namespace {

using namespace chairlift;

constexpr Encoding q4Encoding = Encoding::UnsignedNibble;

inline float byteScale(float largest) { return largest / 127.0f; }

/** To bytes of a scale that holds them; of infinity and NaN, which no sum hides. */
inline void toBytes(Vec low, Vec high, float scale, ByteGroup& to) {
  const Vec inverse = Vec::set(scale > 1e-30f ? 1.0f / scale : 0.0f);
  (low * inverse).storeI8(to.codes);
  (high * inverse).storeI8(to.codes + 16);
  to.scale = scale + (scale - scale);
  to.offset = float(zeroNibble * (Vec::sumI8(to.codes) + Vec::sumI8(to.codes + 16)));
}

/** A query, rotated as keys are. */
inline void toGroups(const float* query, int headSize, ByteGroup* groups) {
  float rotated[maxHeadSize + q4GroupSize];
  memcpy(rotated, query, size_t(headSize) * sizeof(float));
  rotateBack(rotated, headSize);
  for (int i = headSize; i < q4Groups(headSize) * q4GroupSize; i++) rotated[i] = 0;
  for (int g = 0; g < q4Groups(headSize); g++) {
    const Vec low = Vec::load(rotated + g * q4GroupSize), high = Vec::load(rotated + g * q4GroupSize + 16);
    toBytes(low, high, byteScale(largestMagnitude(low, high)), groups[g]);
  }
}

inline Vec wholeProducts(const Sums& sums, const ByteGroup& group) {
  return finishDot<q4Encoding>(sums, nullptr) - Vec::set(group.offset);
}

/** As scoreBlock. */
template <int count, bool ahead>
inline void scoreNibbles(const KvBlock<NibbleKv>& block, const KvBlock<NibbleKv>& next, QueryState* const* queries,
                         int groups, float scale, float softcapAt) {
  const ByteGroup* own[count];
  repeat<count>([&](int q) CHAIRLIFT_LAMBDA { own[q] = queries[q]->groups; });
  for (int token = 0; token < blockTokens; token += 16) {
    Vec totals[count];
    repeat<count>([&](int q) CHAIRLIFT_LAMBDA { totals[q] = Vec::zero(); });
    for (int g = 0; g < groups; g++) {
      const size_t at = size_t(g) * q4GroupBytes + size_t(token) * 16;
      Sums sums[count];
      repeat<count>([&](int q) CHAIRLIFT_LAMBDA { sums[q] = startDot<q4Encoding>(nullptr); });
      repeat<4>([&](int line) CHAIRLIFT_LAMBDA {
        if (ahead) __builtin_prefetch(next.keys + at + line * 64);
        Codes low, high;
        loadNibbles<q4Encoding>(nullptr, block.keys + at + line * 64, low, high);
        repeat<count>([&](int q) CHAIRLIFT_LAMBDA {
          const int8_t* const codes = own[q][g].codes + line * 8;
          sums[q] = addDot<q4Encoding>(sums[q], low, spread(codes));
          sums[q] = addDot<q4Encoding>(sums[q], high, spread(codes + 4));
        });
      });
      const uint8_t* const scalesAt = block.keys + size_t(g) * q4GroupBytes + q4CodeBytes;
      if (ahead && token == 0) __builtin_prefetch(next.keys + size_t(g) * q4GroupBytes + q4CodeBytes);
      const Vec scales = Vec::loadF16((const uint16_t*)scalesAt + token);
      repeat<count>([&](int q) CHAIRLIFT_LAMBDA {
        totals[q] = fma(wholeProducts(sums[q], own[q][g]) * Vec::set(own[q][g].scale), scales, totals[q]);
      });
    }
    repeat<count>([&](int q) CHAIRLIFT_LAMBDA {
      toScores(totals[q], scale, softcapAt).store(queries[q]->weights + token);
    });
  }
}

/** The weights of tokens begin … end - 1, times the scales of their values; those of others may be anything. */
template <bool whole>
CHAIRLIFT_INLINE void scaleWeights(const float* weights, Vec lowScales, Vec highScales, int begin, int end, Vec& low, Vec& high) {
  low = Vec::load(weights) * lowScales;
  high = Vec::load(weights + 16) * highScales;
  if (!whole) replaceUnseen(begin, end, 0, low, high);
}

/**
 * Adds the weighted values of tokens begin … end - 1, or of `whole` blocks. Weights are bytes of one scale for all groups, whose values
 * are alike.
 */
template <int count, bool ahead, bool whole>
inline void weighNibbles(const KvBlock<NibbleKv>& block, const KvBlock<NibbleKv>& next, QueryState* const* queries,
                         const int* begin, const int* end, int groups) {
  const auto scalesOf = [&](int g) {
    return (const uint16_t*)(block.values + size_t(g) * q4GroupBytes + q4CodeBytes);
  };
  Vec largest[count];
  repeat<count>([&](int q) CHAIRLIFT_LAMBDA { largest[q] = Vec::zero(); });
  for (int g = 0; g < groups; g++) {
    const Vec lowScales = Vec::loadF16(scalesOf(g)), highScales = Vec::loadF16(scalesOf(g) + 16);
    repeat<count>([&](int q) CHAIRLIFT_LAMBDA {
      Vec low, high;
      scaleWeights<whole>(queries[q]->weights, lowScales, highScales, begin[q], end[q], low, high);
      largest[q] = largerMagnitudes(largest[q], largerMagnitudes(low, high));
    });
  }
  float scales[count];
  repeat<count>([&](int q) CHAIRLIFT_LAMBDA { scales[q] = byteScale(largestMagnitude(largest[q], largest[q])); });
  for (int g = 0; g < groups; g++) {
    const uint8_t* const values = block.values + size_t(g) * q4GroupBytes;
    const uint8_t* const later = next.values + size_t(g) * q4GroupBytes;
    if (ahead) __builtin_prefetch(later + q4CodeBytes);
    const Vec lowScales = Vec::loadF16(scalesOf(g)), highScales = Vec::loadF16(scalesOf(g) + 16);
    ByteGroup weights[count];
    repeat<count>([&](int q) CHAIRLIFT_LAMBDA {
      Vec low, high;
      scaleWeights<whole>(queries[q]->weights, lowScales, highScales, begin[q], end[q], low, high);
      toBytes(low, high, scales[q], weights[q]);
    });
    Sums low[count], high[count];
    repeat<count>([&](int q) CHAIRLIFT_LAMBDA { low[q] = high[q] = startDot<q4Encoding>(nullptr); });
    repeat<8>([&](int line) CHAIRLIFT_LAMBDA {
      if (ahead) __builtin_prefetch(later + line * 64);
      Codes lowCodes, highCodes;
      loadNibbles<q4Encoding>(nullptr, values + line * 64, lowCodes, highCodes);
      repeat<count>([&](int q) CHAIRLIFT_LAMBDA {
        const auto four = spread(weights[q].codes + line * 4);
        low[q] = addDot<q4Encoding>(low[q], lowCodes, four);
        high[q] = addDot<q4Encoding>(high[q], highCodes, four);
      });
    });
    repeat<count>([&](int q) CHAIRLIFT_LAMBDA {
      float* const to = queries[q]->segment.accumulator + g * q4GroupSize;
      const Vec scales = Vec::set(weights[q].scale);
      fma(wholeProducts(low[q], weights[q]), scales, Vec::load(to)).store(to);
      fma(wholeProducts(high[q], weights[q]), scales, Vec::load(to + 16)).store(to + 16);
    });
  }
}

}  // namespace
