// The kernels compiled for avx2. See kernels.h.

#include "vec-avx2.h"
//
#include "codes-avx2.h"
#include "vec-math.h"
//
#include "kernels-attention.h"
#include "kernels-matrix.h"
#include "kernels-rows.h"

namespace chairlift {

const KernelTable avx2Kernels = {
    "avx2", false, multiply, rmsFactor, scaleRow, makeInput, rotate, addTo, softcapInPlace, storeKv, attend,
};

}  // namespace chairlift
