// See layers/mlp.h.

#include "layers/mlp.h"

#include "cuda/layers/mlp.h"
#include "cuda/layers/registry.h"

namespace chairlift {
namespace cuda {

Input activatedInput(const Mlp& mlp, float* projected, int count, Work& work) {
  if (mlp.gateCutoff) {
    CutGatesArgs args{projected, int64_t(mlp.projectedStride()), mlp.size, *mlp.gateCutoff};
    work.device.launch("cut_gates", {count, 1, 256, 256}, args);
  }
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
  if (!mlp.gated) return;
  ShareRowsArgs args{out, int64_t(work.stream.stride), work.stream.size, projected + mlp.shareAt(), int64_t(stride)};
  work.device.launch("share_rows", {work.rows, 1, 256, 0}, args);
}

}  // namespace cuda
}  // namespace chairlift
