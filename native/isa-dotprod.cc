// The kernels compiled for NEON with the dot product instructions. See kernels.h.

#include "vec-neon.h"
//
#include "codes-neon.h"
#include "vec-math.h"
//
#include "kernels-attention.h"
#include "kernels-matrix.h"
#include "kernels-rows.h"

namespace chairlift {

const KernelTable dotprodKernels = {
    "dotprod", false, multiply, rmsFactor, scaleRow, makeInput, rotate, addTo, softcapInPlace, storeKv, attend,
};

}  // namespace chairlift
