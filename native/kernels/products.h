// Matrix products over packed panels, by vectors. One lane is one output column; the sum over inputs runs in one fixed
// order whatever the number of rows, so a row's result never depends on its neighbours.
// Include after the ISA's vec-*.h and codes-*.h.
#pragma once

#include "kernels/products-floats.h"
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

/** Rows from `firstRow` on, at most `most` at a time. */
template <class Kind, int most = rowTile>
void multiplyByVectors(const Product& p, int firstRow) {
  if constexpr (Kind::isFloat && Kind::encoding != Encoding::F8) {
    multiplyFloats<Kind::encoding>(p);
  } else {
    takePanels<most>(p, firstRow, [&](auto count, int row, int panel) CHAIRLIFT_LAMBDA {
      constexpr int rows = decltype(count)::value;
      if constexpr (Kind::isFloat) multiplyF8<rows>(p, row, panel);
      else multiplyCodes<Kind, VectorDots, rows>(p, row, panel);
    });
  }
}

/** A template so that ISAs with products of their own do not compile it. */
template <int most = rowTile>
void multiply(const PackedMatrix& matrix, const Activations& x, int firstPanel, int endPanel, const float* bias,
              float* out, size_t outStride) {
  const Product p{matrix, x, firstPanel, endPanel, bias, out, outStride};
  forKind(matrix, [&](auto kind) { multiplyByVectors<decltype(kind), most>(p, 0); });
}

}  // namespace
