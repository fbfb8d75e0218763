// Matrix products over packed panels, by vectors. One lane is one output column; the sum over inputs runs in one fixed
// order whatever the number of rows, so a row's result never depends on its neighbours.
// Include after the ISA's vec-*.h and codes-*.h.
#pragma once

#include "kernels/products-frame.h"

namespace {

/** Dot products of one group, four inputs of 16 columns at a time. */
template <class Kind, int rows>
struct VectorDots {
  const int8_t* inputs;
  Codes codes[codesPerGroup];

  CHAIRLIFT_INLINE VectorDots(const PackedMatrix& matrix, const uint8_t* from, const int8_t* itsInputs)
      : inputs(itsInputs) {
    loadGroup<Kind>(matrix, from, codes);
  }

  CHAIRLIFT_INLINE void addPart(int part, Sums (&sums)[rows]) const {
    constexpr int count = codesPerGroup / Kind::parts;
    repeat<count>([&](int q) CHAIRLIFT_LAMBDA {
      const int at = part * count + q;
      repeat<rows>([&](int r) CHAIRLIFT_LAMBDA {
        sums[r] = addDot<Kind::encoding>(sums[r], codes[at], inputs + r * groupInputs + at * 4);
      });
    });
  }
};

template <class Kind, int rows>
inline void multiplyFloats(const Product& p, int row, int panel) {
  const float* inputs = p.x.values + size_t(row) * p.x.valueStride;
  const uint8_t* data = p.panelAt(panel);
  SegmentSums<rows> segments;
  for (int first = 0; first < p.matrix.inputs; first += segmentInputs) {
    const int end = first + segmentInputs < p.matrix.inputs ? first + segmentInputs : p.matrix.inputs;
    for (int k = first; k < end; k++) {
      Vec weights;
      if constexpr (Kind::encoding == Encoding::F32) weights = Vec::load((const float*)data + k * panelColumns);
      else if constexpr (Kind::encoding == Encoding::F16) weights = Vec::loadF16((const uint16_t*)data + k * panelColumns);
      else weights = Vec::loadBf16((const uint16_t*)data + k * panelColumns);
      repeat<rows>([&](int r) CHAIRLIFT_LAMBDA {
        const float x = inputs[size_t(r) * p.x.valueStride + size_t(k)];
        segments.total[r] = fma(Vec::set(x), weights, segments.total[r]);
      });
    }
    segments.endSegment();
  }
  repeat<rows>([&](int r) CHAIRLIFT_LAMBDA { p.store(segments.sum[r], row + r, panel); });
}

/** A block is summed before its scale, even and odd inputs apart: shorter chains of additions. */
template <int rows>
inline void multiplyF8(const Product& p, int row, int panel) {
  const PackedMatrix& matrix = p.matrix;
  const float* inputs = p.x.values + size_t(row) * p.x.valueStride;
  const uint8_t* block = p.panelAt(panel);
  // A block is never cut; a larger one is a segment of its own.
  const int segment = matrix.blockInputs > segmentInputs ? matrix.blockInputs : segmentInputs;
  SegmentSums<rows> segments;
  for (int first = 0; first < matrix.inputs; block += matrix.blockBytes()) {
    const Vec scale = Vec::load((const float*)block);
    const uint8_t* codes = block + panelColumns * sizeof(float);
    Vec even[rows], odd[rows];
    repeat<rows>([&](int r) CHAIRLIFT_LAMBDA { even[r] = odd[r] = Vec::zero(); });
    for (int k = 0; k < matrix.blockInputs; k += 2) {
      const Vec evenWeights = Vec::loadF8(codes + k * panelColumns);
      const Vec oddWeights = Vec::loadF8(codes + (k + 1) * panelColumns);
      repeat<rows>([&](int r) CHAIRLIFT_LAMBDA {
        const float* x = inputs + size_t(r) * p.x.valueStride + size_t(first + k);
        even[r] = fma(Vec::set(x[0]), evenWeights, even[r]);
        odd[r] = fma(Vec::set(x[1]), oddWeights, odd[r]);
      });
    }
    repeat<rows>([&](int r) CHAIRLIFT_LAMBDA {
      segments.total[r] = fma(even[r] + odd[r], scale, segments.total[r]);
    });
    first += matrix.blockInputs;
    if (first % segment == 0 || first == matrix.inputs) segments.endSegment();
  }
  repeat<rows>([&](int r) CHAIRLIFT_LAMBDA { p.store(segments.sum[r], row + r, panel); });
}

/** Rows from `firstRow` on, at most `most` at a time. */
template <class Kind, int most = rowTile>
void multiplyByVectors(const Product& p, int firstRow) {
  takePanels<most>(p, firstRow, [&](auto count, int row, int panel) CHAIRLIFT_LAMBDA {
    constexpr int rows = decltype(count)::value;
    if constexpr (Kind::encoding == Encoding::F8) multiplyF8<rows>(p, row, panel);
    else if constexpr (Kind::isFloat) multiplyFloats<Kind, rows>(p, row, panel);
    else multiplyCodes<Kind, VectorDots, rows>(p, row, panel);
  });
}

/** A template so that ISAs with products of their own do not compile it. */
template <int most = rowTile>
void multiply(const PackedMatrix& matrix, const Activations& x, int firstPanel, int endPanel, const float* bias,
              float* out, size_t outStride) {
  const Product p{matrix, x, firstPanel, endPanel, bias, out, outStride};
  forKind(matrix, [&](auto kind) { multiplyByVectors<decltype(kind), most>(p, 0); });
}

}  // namespace
