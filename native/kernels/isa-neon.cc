// The kernels compiled for NEON, which every ARM64 processor has. See kernels.h.

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

const KernelTable neonKernels = {
    "neon", false, multiply<>, rowScale, normalize, makeInput, rotate, addScaled, softcapInPlace, storeKv, attend,
    {convolve, updateDelta, scan, stepsAndDecays, sigmoids, toLength, multiplyRow},
};

}  // namespace chairlift
