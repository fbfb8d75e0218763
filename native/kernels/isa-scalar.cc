// The kernels compiled for scalar. See kernels.h.

#include "kernels/vec-scalar.h"
//
#include "kernels/codes-scalar.h"
#include "kernels/vec-math.h"
//
#include "kernels/attention.h"
#include "kernels/products.h"
#include "kernels/rows.h"
#include "kernels/recurrence.h"

namespace chairlift {

const KernelTable scalarKernels = {
    "scalar", false, multiply<>, rowScale, normalize, makeInput, rotate, addScaled, softcapInPlace, storeKv, attend,
    {convolve, updateDelta, scan, stepsAndDecays, sigmoids, toLength, multiplyRow},
};

}  // namespace chairlift
