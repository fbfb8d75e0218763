// The kernels compiled for avx512. See kernels.h.

#include "vec-avx512.h"
//
#include "codes-avx512.h"
#include "vec-math.h"
//
#include "kernels-attention.h"
#include "kernels-matrix.h"
#include "kernels-rows.h"

namespace chairlift {

const KernelTable avx512Kernels = {
    "avx512", false, multiply, rmsFactor, scaleRow, makeInput, rotate, addTo, softcapInPlace, storeKv, attend,
};

}  // namespace chairlift
