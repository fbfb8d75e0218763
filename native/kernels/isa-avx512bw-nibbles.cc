// Products with matrices of nibbles, compiled for AVX-512 without VNNI. See kernels.h.

#include "kernels/vec-avx512.h"
//
#include "kernels/codes-avx512bw.h"
#include "kernels/vec-math.h"
//
#include "kernels/products-avx512.h"

namespace chairlift {

void multiplyNibblesAvx512bw(const PackedMatrix& matrix, const Activations& x, int firstPanel, int endPanel,
                             const float* bias, float* out, size_t outStride) {
  multiplyNibblesOnAvx512(matrix, x, firstPanel, endPanel, bias, out, outStride);
}

}  // namespace chairlift
