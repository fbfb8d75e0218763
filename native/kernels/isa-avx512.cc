// The kernels compiled for avx512. See kernels.h.

#include "kernels/vec-avx512.h"
//
#include "kernels/codes-avx512.h"
#include "kernels/vec-math.h"
//
#include "kernels/attention.h"
#include "kernels/products-avx512.h"
#include "kernels/rows.h"
#include "kernels/recurrence.h"

namespace chairlift {

void multiplyRowsAvx512(const PackedMatrix& matrix, const Activations& x, int firstRow, int firstPanel, int endPanel,
                        const float* bias, float* out, size_t outStride) {
  multiplyRowsOnAvx512<multiplyNibblesAvx512>(matrix, x, firstRow, firstPanel, endPanel, bias, out, outStride);
}

const KernelTable avx512Kernels = {
    "avx512", false, multiplyOnAvx512<multiplyRowsAvx512>, rowScale, normalize, makeInput, rotate, addScaled, softcapInPlace,
    storeKv, attend,
    {convolve, updateDelta, scan, stepsAndDecays, sigmoids, toLength, multiplyRow},
};

}  // namespace chairlift
