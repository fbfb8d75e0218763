// See MLP.h.

#include "layers/mlp.h"

#include "model/exponential.h"

namespace chairlift {

namespace {

void cutGates(float* gates, int count, float cutoff, const KernelTable& kernels) {
  const RowScale scale = kernels.rowScale(NormKind::Layer, gates, count, 0);
  const float limit = scale.mean + cutoff / scale.factor;
  // What is not a number stays so.
  for (int i = 0; i < count; i++) gates[i] = gates[i] < limit ? 0.0f : gates[i] - limit;
}

}  // namespace

InputRows activatedRows(const Mlp& mlp, float* projected, int count, Workspace& work) {
  if (mlp.gateCutoff) {
    work.pool.forEachOne(count, [&](int row) {
      cutGates(projected + size_t(row) * mlp.projectedStride(), mlp.size, *mlp.gateCutoff,
               work.kernels);
    });
  }
  InputRows rows{projected, mlp.projectedStride(), mlp.size};
  rows.form = mlp.hasGate ? InputForm::Gated : InputForm::Activated;
  rows.curve = mlp.curve;
  if (mlp.hasGate) {
    rows.up = projected + mlp.upAt();
    rows.upStride = rows.stride;
  }
  return rows;
}

void runMlp(const Mlp& mlp, const InputRows& input, Workspace& work, float* out) {
  const int rows = work.batch.count();
  const size_t stride = mlp.projectedStride(), outStride = work.stream.stride;
  float* const projected = work.inner.rows(size_t(rows), stride);
  work.multiplier.apply(mlp.projection, input, rows, projected, stride);
  work.multiplier.apply(mlp.down, activatedRows(mlp, projected, rows, work), rows, out, outStride);
  if (!mlp.gated) return;
  work.pool.forEachOne(rows, [&](int row) {
    const float share = float(sigmoid(double(projected[size_t(row) * stride + mlp.shareAt()])));
    float* values = out + size_t(row) * outStride;
    for (int i = 0; i < work.stream.size; i++) values[i] *= share;
  });
}

}  // namespace chairlift
