// The dot product kernels with quantized matrix products on the int8 matrix instructions. See kernels.h.

#include "kernels/vec-neon.h"
//
#include "kernels/codes-neon.h"
#include "kernels/vec-math.h"
//
#include "kernels/attention.h"
#include "kernels/products.h"
#include "kernels/rows.h"
#include "kernels/recurrence.h"
//
#include "kernels/products-i8mm.h"

namespace chairlift {

const KernelTable i8mmKernels = {
    "i8mm", false, multiplyInPairs, rowScale, normalize, makeInput, rotate, addScaled, softcapInPlace, storeKv, attend,
    {convolve, updateDelta, scan, stepsAndDecays, sigmoids, toLength, multiplyRow},
};

}  // namespace chairlift
