// Products with matrices of nibbles, compiled for avx512. See kernels.h.

#include "kernels/vec-avx512.h"
//
#include "kernels/codes-avx512.h"
#include "kernels/vec-math.h"
//
#include "kernels/products-avx512.h"

namespace chairlift {

void multiplyNibblesAvx512(const PackedMatrix& matrix, const Activations& x, int firstRow, int firstPanel, int endPanel,
                           const float* bias, float* out, size_t outStride) {
  const Product p{matrix, x, firstPanel, endPanel, bias, out, outStride};
  forNibbles(matrix, [&](auto kind) { multiplyPanels<decltype(kind)>(p, firstRow); });
}

}  // namespace chairlift
