// The AVX-512 kernels with quantized matrix products on AMX. See kernels.h.

#include "kernels/vec-avx512.h"
//
#include "kernels/codes-avx512.h"
#include "kernels/vec-math.h"
//
#include "kernels/attention.h"
#include "kernels/products.h"
#include "kernels/rows.h"
#include "kernels/recurrence.h"
//
#include "kernels/products-amx.h"

namespace chairlift {

const KernelTable amxKernels = {
    "amx", true, multiplyAmx, rowScale, normalize, makeInput, rotate, addScaled, softcapInPlace, storeKv, attend,
    {convolve, updateDelta, scan, stepsAndDecays, sigmoids, toLength, multiplyRow},
};

}  // namespace chairlift
