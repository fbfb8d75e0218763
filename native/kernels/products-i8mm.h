// Matrix products of quantized matrices on the int8 matrix instructions: each multiplies two rows by two columns
// over eight inputs. The integer part is exact and the rest as in other kernels, so the bits are those of the vector
// kernels, which take a last single row.
// Include after products.h of the NEON family.
#pragma once

#include <arm_neon.h>

#include "kernels/products.h"

namespace {

using namespace chairlift;

// A group's inputs, eight at a time.
constexpr int stepsPerGroup = groupInputs / 8;

/** Eight inputs of each of two rows, or of two columns, side by side: step by step. */
struct Pair {
  int8x16_t step[stepsPerGroup];
};

/** Two consecutive rows of a tile. */
CHAIRLIFT_INLINE Pair pairRows(const int8_t* from) {
  Pair rows;
  repeat<2>([&](int half) CHAIRLIFT_LAMBDA {
    const int64x2_t a = vreinterpretq_s64_s8(vld1q_s8(from + half * 16));
    const int64x2_t b = vreinterpretq_s64_s8(vld1q_s8(from + groupInputs + half * 16));
    rows.step[half * 2] = vreinterpretq_s8_s64(vzip1q_s64(a, b));
    rows.step[half * 2 + 1] = vreinterpretq_s8_s64(vzip2q_s64(a, b));
  });
  return rows;
}

/** The columns of one quarter, two to a pair, over `steps` steps from `begin` on. */
template <int steps>
CHAIRLIFT_INLINE void pairColumns(const Codes (&codes)[codesPerGroup], int quarter, int begin, Pair& left, Pair& right) {
  repeat<steps>([&](int i) CHAIRLIFT_LAMBDA {
    const int step = begin + i;
    const int32x4_t low = vreinterpretq_s32_s8(codes[step * 2].quarter[quarter]);
    const int32x4_t high = vreinterpretq_s32_s8(codes[step * 2 + 1].quarter[quarter]);
    left.step[step] = vreinterpretq_s8_s32(vzip1q_s32(low, high));
    right.step[step] = vreinterpretq_s8_s32(vzip2q_s32(low, high));
  });
}

/** Adds the products of two rows with the columns of one quarter. */
template <int steps>
CHAIRLIFT_INLINE void addProducts(const Pair& rows, const Pair& left, const Pair& right, int begin, int32x4_t& first,
                                  int32x4_t& second) {
  int32x4_t a = vdupq_n_s32(0), b = a;
  repeat<steps>([&](int i) CHAIRLIFT_LAMBDA {
    a = vmmlaq_s32(a, rows.step[begin + i], left.step[begin + i]);
    b = vmmlaq_s32(b, rows.step[begin + i], right.step[begin + i]);
  });
  // Each holds its two columns' products with the first row, then those with the second.
  const int64x2_t lefts = vreinterpretq_s64_s32(a), rights = vreinterpretq_s64_s32(b);
  first = vaddq_s32(first, vreinterpretq_s32_s64(vzip1q_s64(lefts, rights)));
  second = vaddq_s32(second, vreinterpretq_s32_s64(vzip2q_s64(lefts, rights)));
}

/** Dot products of one group with several rows, two by two; an odd one is multiplied with the tile's next, which is dropped. */
template <class Kind, int rows>
struct PairDots {
  Codes codes[codesPerGroup];
  static constexpr int pairs = (rows + 1) / 2;
  Pair rowPairs[pairs];

  CHAIRLIFT_INLINE PairDots(const PackedMatrix& matrix, const uint8_t* from, const int8_t* inputs) {
    loadGroup<Kind>(matrix, from, codes);
    repeat<pairs>([&](int p) CHAIRLIFT_LAMBDA { rowPairs[p] = pairRows(inputs + p * 2 * groupInputs); });
  }

  CHAIRLIFT_INLINE void addPart(int part, Sums (&sums)[rows]) const {
    constexpr int steps = stepsPerGroup / Kind::parts;
    repeat<4>([&](int quarter) CHAIRLIFT_LAMBDA {
      Pair left, right;
      pairColumns<steps>(codes, quarter, part * steps, left, right);
      repeat<pairs>([&](int p) CHAIRLIFT_LAMBDA {
        int32x4_t dropped = vdupq_n_s32(0);
        addProducts<steps>(rowPairs[p], left, right, part * steps, sums[p * 2].quarter[quarter],
                           p * 2 + 1 < rows ? sums[p * 2 + 1].quarter[quarter] : dropped);
      });
    });
  }
};

// Rows at a time, in pairs.
constexpr int pairedRowTile = 8;

void multiplyInPairs(const PackedMatrix& matrix, const Activations& x, int firstPanel, int endPanel, const float* bias,
                     float* out, size_t outStride) {
  const Product p{matrix, x, firstPanel, endPanel, bias, out, outStride};
  forKind(matrix, [&](auto kind) {
    using Kind = decltype(kind);
    if constexpr (Kind::isFloat) return multiplyByVectors<Kind>(p, 0);
    else takePanels<pairedRowTile>(p, 0, [&](auto count, int row, int panel) CHAIRLIFT_LAMBDA {
      constexpr int rows = decltype(count)::value;
      if constexpr (rows == 1) multiplyCodes<Kind, VectorDots, 1>(p, row, panel);
      else multiplyCodes<Kind, PairDots, rows>(p, row, panel);
    });
  });
}

}  // namespace
