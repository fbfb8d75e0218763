// The kernels compiled for AVX-512 without VNNI. See kernels.h.

#include "kernels/vec-avx512.h"
//
#include "kernels/codes-avx512bw.h"
#include "kernels/vec-math.h"
//
#include "kernels/attention.h"
#include "kernels/products-avx512.h"
#include "kernels/rows.h"
#include "kernels/recurrence.h"

namespace chairlift {

const KernelTable avx512bwKernels = {
    "avx512bw", false, multiplyOnAvx512<multiplyRowsOnAvx512<multiplyNibblesAvx512bw>>, rowScale, normalize, makeInput, rotate, addScaled, softcapInPlace,
    storeKv, attend,
    {convolve, updateDelta, scan, stepsAndDecays, sigmoids, toLength, multiplyRow},
};

}  // namespace chairlift
