// The AVX-512 kernels with quantized matrix products on AMX. See kernels.h.

#include "vec-avx512.h"
//
#include "codes-avx512.h"
#include "vec-math.h"
//
#include "kernels-attention.h"
#include "kernels-matrix.h"
#include "kernels-rows.h"
//
#include "kernels-amx.h"

namespace chairlift {

const KernelTable amxKernels = {
    "amx", true, multiplyAmx, rmsFactor, scaleRow, makeInput, rotate, addTo, softcapInPlace, storeKv, attend,
};

}  // namespace chairlift
