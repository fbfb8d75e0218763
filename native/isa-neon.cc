// The kernels compiled for NEON, which every ARM64 processor has. See kernels.h.

#include "vec-neon.h"
//
#include "codes-neon.h"
#include "vec-math.h"
//
#include "kernels-attention.h"
#include "kernels-matrix.h"
#include "kernels-rows.h"

namespace chairlift {

const KernelTable neonKernels = {
    "neon", false, multiply, rmsFactor, scaleRow, makeInput, rotate, addTo, softcapInPlace, storeKv, attend,
};

}  // namespace chairlift
