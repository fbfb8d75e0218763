// See mlp.cc.
#pragma once

#include "cuda/work.h"
#include "layers/mlp.h"

namespace chairlift {
namespace cuda {

/** Projected rows as `down` reads them. */
Input activatedInput(const Mlp& mlp, float* projected, int rows, Work& work);

}  // namespace cuda
}  // namespace chairlift
