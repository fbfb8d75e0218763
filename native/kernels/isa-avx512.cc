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

const KernelTable avx512Kernels = {
    "avx512", false, multiplyOnAvx512<multiplyNibblesAvx512>, rowScale, normalize, makeInput, rotate, addScaled, softcapInPlace,
    storeKv, attend,
    {convolve, updateDelta, scan, stepsAndDecays, sigmoids, toLength, multiplyRow},
};

}  // namespace chairlift
