// Matrix products of quantized matrices on AVX-512, two panels at a time: inputs are spread over the lanes once for both, and
// memory is read as two streams, which alone is worth a tenth of its speed. Sums keep the order of the other kernels.
// Include after products.h.
#pragma once

#include "kernels/products.h"

namespace {

constexpr int twoPanelsPrefetchBytes = 4096;

/** Dot products of one part of a group of two panels with rows of inputs: those of the first panel, then those of the second. */
template <class Kind, int rows>
CHAIRLIFT_INLINE void addTwoDots(const PackedMatrix& matrix, const uint8_t* first, const uint8_t* second,
                                 const int8_t* inputs, int part, Sums (&sums)[2 * rows]) {
  constexpr Encoding encoding = Kind::encoding;
  const auto add = [&](const Codes& a, const Codes& b, int at) CHAIRLIFT_LAMBDA {
    repeat<rows>([&](int r) CHAIRLIFT_LAMBDA {
      const Spread four = spread(inputs + r * groupInputs + at * 4);
      sums[r] = addDot<encoding>(sums[r], a, four);
      sums[rows + r] = addDot<encoding>(sums[rows + r], b, four);
    });
  };
  if constexpr (Kind::isBytes) {
    constexpr int count = codesPerGroup / Kind::parts;
    repeat<count>([&](int q) CHAIRLIFT_LAMBDA {
      const int at = part * count + q;
      add(loadBytes<encoding>(first + at * 64), loadBytes<encoding>(second + at * 64), at);
    });
  } else {
    repeat<4>([&](int q) CHAIRLIFT_LAMBDA {
      Codes firstLow, firstHigh, secondLow, secondHigh;
      loadNibbles<encoding>(matrix.codebook, first + q * 64, firstLow, firstHigh);
      loadNibbles<encoding>(matrix.codebook, second + q * 64, secondLow, secondHigh);
      if (Kind::parts == 1 || part == 0) add(firstLow, secondLow, q);
      if (Kind::parts == 1 || part == 1) add(firstHigh, secondHigh, q + 4);
    });
  }
}

/** `rows` rows of one tile, from `row` on, against a panel and the next; a last one goes with itself, and counts once. */
template <class Kind, int rows>
inline void multiplyTwoPanels(const Product& p, int row, int panel) {
  constexpr Encoding encoding = Kind::encoding;
  constexpr int parts = Kind::parts;
  const PackedMatrix& matrix = p.matrix;
  const bool isLast = panel + 1 == p.endPanel;
  const size_t panelBytes = matrix.panelBytes, toSecond = isLast ? 0 : panelBytes;
  const size_t groupBytes = matrix.groupBytes(), firstRow = size_t(row % tileRows);
  const int8_t* inputs = p.codesAt(row) + firstRow * groupInputs;
  const GroupSide* sides = p.sidesAt(row);
  const uint8_t* chunk = p.panelAt(panel);
  const uint8_t* const panelEnd = chunk + panelBytes;
  SegmentSums<rows> first, second;

  for (int c = 0; c < matrix.chunks(); c++) {
    const int groups = matrix.groupsIn(c);
    const ChunkScales firstScales(matrix, chunk, groups), secondScales = firstScales.ahead(toSecond);
    for (int i = 0; i < groups; i++) {
      // Past the end of both come the next two panels, past the end of the first alone the second.
      const uint8_t* ahead = chunk + size_t(i) * groupBytes + twoPanelsPrefetchBytes;
      if (ahead >= panelEnd) ahead += panelBytes;
      prefetchGroup<Kind>(ahead);
      prefetchGroup<Kind>(ahead + panelBytes);
      const uint8_t* codes = chunk + i * Kind::codeBytes;
      const float* inputScales = sides->scale + firstRow;
      repeat<parts>([&](int part) CHAIRLIFT_LAMBDA {
        const int32_t* offsets = sides->offset[Kind::sumIndex(part)] + firstRow;
        Sums sums[2 * rows];
        repeat<2 * rows>([&](int k) CHAIRLIFT_LAMBDA { sums[k] = startDot<encoding>(offsets + k % rows); });
        addTwoDots<Kind, rows>(matrix, codes, codes + toSecond, inputs, part, sums);
        const int scaleGroup = i * parts + part;
        const Vec firstScale = firstScales.codeScale<Kind>(scaleGroup);
        const Vec secondScale = secondScales.codeScale<Kind>(scaleGroup);
        repeat<rows>([&](int r) CHAIRLIFT_LAMBDA {
          const Vec dot = finishDot<encoding>(sums[r], offsets + r);
          first.total[r] = addShare(first.total[r], dot, firstScale, inputScales[r]);
        });
        repeat<rows>([&](int r) CHAIRLIFT_LAMBDA {
          const Vec dot = finishDot<encoding>(sums[rows + r], offsets + r);
          second.total[r] = addShare(second.total[r], dot, secondScale, inputScales[r]);
        });
        if (Kind::mayHaveMinimum && matrix.hasMinimum) {
          addMinimums<Kind>(firstScales, scaleGroup, *sides, firstRow, first.total);
          addMinimums<Kind>(secondScales, scaleGroup, *sides, firstRow, second.total);
        }
      });
      inputs += groupCodes;
      sides++;
    }
    if (endsSegment(matrix, c)) {
      first.endSegment();
      second.endSegment();
    }
    chunk += matrix.chunkBytes(groups);
  }
  repeat<rows>([&](int r) CHAIRLIFT_LAMBDA { p.store(first.sum[r], row + r, panel); });
  if (isLast) return;
  repeat<rows>([&](int r) CHAIRLIFT_LAMBDA { p.store(second.sum[r], row + r, panel + 1); });
}

/** Rows from `firstRow` on. */
template <class Kind>
void multiplyPanels(const Product& p, int firstRow) {
  if constexpr (Kind::isFloat) {
    multiplyByVectors<Kind>(p, firstRow);
  } else {
    for (int panel = p.firstPanel; panel < p.endPanel; panel += 2) {
      takeRows<rowTile>(firstRow, p.x.rows, [&](auto count, int row) CHAIRLIFT_LAMBDA {
        multiplyTwoPanels<Kind, decltype(count)::value>(p, row, panel);
      });
    }
  }
}

/** The kernels of nibbles, half of what there is to compile, are compiled apart. */
template <MultiplyRowsKernel multiplyNibbles>
void multiplyRowsOnAvx512(const PackedMatrix& matrix, const Activations& x, int firstRow, int firstPanel, int endPanel,
                          const float* bias, float* out, size_t outStride) {
  if (hasNibbles(matrix)) return multiplyNibbles(matrix, x, firstRow, firstPanel, endPanel, bias, out, outStride);
  const Product p{matrix, x, firstPanel, endPanel, bias, out, outStride};
  forWholeCodes(matrix, [&](auto kind) { multiplyPanels<decltype(kind)>(p, firstRow); });
}

template <MultiplyRowsKernel multiplyRows>
void multiplyOnAvx512(const PackedMatrix& matrix, const Activations& x, int firstPanel, int endPanel, const float* bias,
                      float* out, size_t outStride) {
  multiplyRows(matrix, x, 0, firstPanel, endPanel, bias, out, outStride);
}

}  // namespace
