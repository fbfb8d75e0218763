// The dot product kernels with quantized matrix products on the int8 matrix instructions. See kernels.h.

#include "vec-neon.h"
//
#include "codes-neon.h"
#include "vec-math.h"
//
#include "kernels-attention.h"
#include "kernels-matrix.h"
#include "kernels-rows.h"
//
#include "kernels-i8mm.h"

namespace chairlift {

const KernelTable i8mmKernels = {
    "i8mm", false, multiplyInPairs, rmsFactor, scaleRow, makeInput, rotate, addTo, softcapInPlace, storeKv, attend,
};

}  // namespace chairlift
