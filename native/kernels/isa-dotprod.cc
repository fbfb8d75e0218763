// The kernels compiled for NEON with the dot product instructions. See kernels.h.

#include "kernels/vec-neon.h"
//
#include "kernels/codes-neon.h"
#include "kernels/vec-math.h"
//
#include "kernels/attention.h"
#include "kernels/products.h"
#include "kernels/rows.h"
#include "kernels/recurrence.h"

namespace chairlift {

const KernelTable dotprodKernels = {
    "dotprod", false, multiply<>, rowScale, normalize, makeInput, rotate, addScaled, softcapInPlace, storeKv, attend,
    {convolve, updateDelta, scan, stepsAndDecays, sigmoids, toLength, multiplyRow},
};

}  // namespace chairlift
