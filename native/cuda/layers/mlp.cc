// See layers/mlp.h.

#include "layers/mlp.h"

#include <stdexcept>

#include "cuda/layers/mlp.h"
#include "cuda/layers/registry.h"

namespace chairlift {
namespace cuda {

Input activatedInput(const Mlp& mlp, float* projected, int count, Work&) {
  (void)count;
  if (mlp.gateCutoff) throw std::runtime_error("a cutoff of gates without CUDA kernels");
  Input rows{projected, mlp.projectedStride(), mlp.size};
  rows.form = mlp.hasGate ? InputForm::Gated : InputForm::Activated;
  rows.curve = mlp.curve;
  if (mlp.hasGate) {
    rows.up = projected + mlp.upAt();
    rows.upStride = rows.stride;
  }
  return rows;
}

void launch(const Mlp& mlp, const Input& input, Work& work, float* out) {
  const size_t stride = mlp.projectedStride();
  float* const projected = work.scratch("inner", stride);
  work.multiplier.apply(mlp.projection, input, work.rows, projected, stride);
  work.multiplier.apply(mlp.down, activatedInput(mlp, projected, work.rows, work), work.rows, out, work.stream.stride);
  if (mlp.gated) throw std::runtime_error("a shared expert gate without CUDA kernels");
}

}  // namespace cuda
}  // namespace chairlift
