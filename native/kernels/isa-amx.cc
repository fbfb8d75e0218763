// The AVX-512 kernels, compiled apart, with quantized matrix products on AMX. See kernels.h.

#include "kernels/vec-avx512.h"
//
#include "kernels/codes-avx512.h"
#include "kernels/vec-math.h"
//
#include "kernels/products-amx.h"

namespace chairlift {

namespace {

KernelTable withTiles(KernelTable table) {
  table.name = "amx";
  table.pairsGroups = true;
  table.multiply = multiplyAmx;
  return table;
}

}  // namespace

const KernelTable amxKernels = withTiles(avx512Kernels);

}  // namespace chairlift
