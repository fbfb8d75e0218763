// The kernels compiled for scalar. See kernels.h.

#include "vec-scalar.h"
//
#include "codes-scalar.h"
#include "vec-math.h"
//
#include "kernels-attention.h"
#include "kernels-matrix.h"
#include "kernels-rows.h"

namespace chairlift {

const KernelTable scalarKernels = {
    "scalar", false, multiply, rmsFactor, scaleRow, makeInput, rotate, addTo, softcapInPlace, storeKv, attend,
};

}  // namespace chairlift
