// Matrix products of quantized matrices on the int8 matrix instructions: each multiplies two rows by two columns
// over eight inputs. The integer part is exact and the rest as everywhere else, so the bits are those of the vector
// kernels, which take a last single row.
// Include after products.h of the NEON family.
#pragma once

#include <arm_neon.h>

#include "kernels/kernels.h"

namespace {

using namespace chairlift;

// A group's inputs, eight at a time.
constexpr int stepsPerGroup = groupInputs / 8;

/** Eight inputs of each of two rows, or of two columns, side by side: step by step. */
struct Pair {
  int8x16_t step[stepsPerGroup];
};

/** Two rows of a tile, which lie one behind the other. */
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

/** As multiplyCodes, for an even number of rows. */
template <Encoding encoding, int scaleInputs, int rows>
CHAIRLIFT_INLINE void multiplyCodesInPairs(const PackedMatrix& matrix, const uint8_t* panel, const int8_t* tileCodes,
                                           const GroupSide* sides, int firstRow, Vec (&total)[rows]) {
  constexpr int parts = groupInputs / scaleInputs, steps = stepsPerGroup / parts;
  constexpr size_t codeBytes = isBytes(encoding) ? 512 : 256;
  const int8_t* inputs = tileCodes + firstRow * groupInputs;
  const uint8_t* chunk = panel;
  const size_t groupBytes = matrix.groupBytes();

  for (int c = 0; c < matrix.chunks(); c++) {
    const int groups = matrix.groupsIn(c);
    const ChunkScales scales(matrix, chunk, groups);
    for (int i = 0; i < groups; i++) {
      Codes codes[codesPerGroup];
      prefetchGroup<encoding>(chunk + size_t(i) * groupBytes);
      loadGroup<encoding>(chunk + i * codeBytes, codes);
      Pair rowPairs[rows / 2];
      repeat<rows / 2>([&](int p) CHAIRLIFT_LAMBDA { rowPairs[p] = pairRows(inputs + p * 2 * groupInputs); });
      repeat<parts>([&](int part) CHAIRLIFT_LAMBDA {
        const int32_t* offsets = sides->offset[sumIndex<scaleInputs>(part)] + firstRow;
        Sums dots[rows];
        repeat<rows>([&](int r) CHAIRLIFT_LAMBDA { dots[r] = startDot<encoding>(offsets + r); });
        repeat<4>([&](int quarter) CHAIRLIFT_LAMBDA {
          Pair left, right;
          pairColumns<steps>(codes, quarter, part * steps, left, right);
          repeat<rows / 2>([&](int p) CHAIRLIFT_LAMBDA {
            addProducts<steps>(rowPairs[p], left, right, part * steps, dots[p * 2].quarter[quarter],
                               dots[p * 2 + 1].quarter[quarter]);
          });
        });
        const Vec scale = scales.codeScale<encoding>(i * parts + part);
        repeat<rows>([&](int r) CHAIRLIFT_LAMBDA {
          total[r] = addShare(total[r], finishDot<encoding>(dots[r], offsets + r), scale, sides->scale[firstRow + r]);
        });
        if (!matrix.hasMinimum) return;
        const Vec minimum = scales.minimum(i * parts + part);
        const float* sums = sides->sum[sumIndex<scaleInputs>(part)] + firstRow;
        repeat<rows>([&](int r) CHAIRLIFT_LAMBDA { total[r] = fma(minimum, Vec::set(sums[r]), total[r]); });
      });
      inputs += groupCodes;
      sides++;
    }
    chunk += matrix.chunkBytes(groups);
  }
}

/** `rows` rows of one tile, from `firstRow` on, against one panel. */
template <Encoding encoding, int scaleInputs, int rows>
void multiplyRowPairs(const PackedMatrix& matrix, const Activations& x, int firstRow, int panel, const float* bias,
                      float* out, size_t outStride) {
  Vec total[rows];
  repeat<rows>([&](int r) CHAIRLIFT_LAMBDA { total[r] = Vec::zero(); });
  const size_t tile = size_t(firstRow / tileRows) * x.tileGroups;
  multiplyCodesInPairs<encoding, scaleInputs, rows>(matrix, matrix.panels + size_t(panel) * matrix.panelBytes,
                                                    x.codes + tile * groupCodes, x.sides + tile, firstRow % tileRows,
                                                    total);
  const int column = panel * panelColumns;
  repeat<rows>([&](int r) CHAIRLIFT_LAMBDA {
    storeColumns(total[r], bias ? bias + column : nullptr, out + size_t(firstRow + r) * outStride + column,
                 matrix.outputs - column);
  });
}

/** Takes rows by eight, the rest in ever smaller numbers, panel by panel so that a panel stays cached. */
template <Encoding encoding, int scaleInputs>
void multiplyPanelsInPairs(const PackedMatrix& matrix, const Activations& x, int firstPanel, int endPanel,
                           const float* bias, float* out, size_t outStride) {
  for (int panel = firstPanel; panel < endPanel; panel++) {
    int row = 0;
    for (; row + 8 <= x.rows; row += 8) {
      multiplyRowPairs<encoding, scaleInputs, 8>(matrix, x, row, panel, bias, out, outStride);
    }
    if (row + 4 <= x.rows) {
      multiplyRowPairs<encoding, scaleInputs, 4>(matrix, x, row, panel, bias, out, outStride);
      row += 4;
    }
    if (row + 2 <= x.rows) {
      multiplyRowPairs<encoding, scaleInputs, 2>(matrix, x, row, panel, bias, out, outStride);
      row += 2;
    }
    if (row < x.rows) multiplyTile<encoding, scaleInputs, 1>(matrix, x, row, panel, bias, out, outStride);
  }
}

void multiplyInPairs(const PackedMatrix& matrix, const Activations& x, int firstPanel, int endPanel,
                     const float* bias, float* out, size_t outStride) {
  const bool fine = matrix.scaleInputs == 16;
  const auto run = [&](auto multiplyIt) { multiplyIt(matrix, x, firstPanel, endPanel, bias, out, outStride); };
  switch (matrix.encoding) {
    case Encoding::Byte:
      return run(fine ? multiplyPanelsInPairs<Encoding::Byte, 16> : multiplyPanelsInPairs<Encoding::Byte, 32>);
    case Encoding::UnsignedByte: return run(multiplyPanelsInPairs<Encoding::UnsignedByte, 32>);
    case Encoding::Nibble:
      return run(fine ? multiplyPanelsInPairs<Encoding::Nibble, 16> : multiplyPanelsInPairs<Encoding::Nibble, 32>);
    case Encoding::UnsignedNibble:
      return run(fine ? multiplyPanelsInPairs<Encoding::UnsignedNibble, 16>
                      : multiplyPanelsInPairs<Encoding::UnsignedNibble, 32>);
    case Encoding::Codebook: return run(multiplyPanelsInPairs<Encoding::Codebook, 32>);
    default: return multiply(matrix, x, firstPanel, endPanel, bias, out, outStride);
  }
}

}  // namespace
