// See feed-forward.h.

#include "model/feed-forward.h"

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

InputRows activatedRows(const FeedForward& feedForward, float* projected, int count, Workspace& work) {
  if (feedForward.gateCutoff) {
    work.pool.forEachOne(count, [&](int row) {
      cutGates(projected + size_t(row) * feedForward.projectedStride(), feedForward.size, *feedForward.gateCutoff,
               work.kernels);
    });
  }
  InputRows rows{projected, feedForward.projectedStride(), feedForward.size};
  rows.form = feedForward.hasGate ? InputForm::Gated : InputForm::Activated;
  rows.curve = feedForward.curve;
  if (feedForward.hasGate) {
    rows.up = projected + feedForward.upAt();
    rows.upStride = rows.stride;
  }
  return rows;
}

void runFeedForward(const FeedForward& feedForward, const InputRows& input, Workspace& work, float* out) {
  const int rows = work.batch.count();
  const size_t stride = feedForward.projectedStride(), outStride = work.stream.stride;
  float* const projected = work.inner.rows(size_t(rows), stride);
  work.multiplier.apply(feedForward.projection, input, rows, projected, stride);
  work.multiplier.apply(feedForward.down, activatedRows(feedForward, projected, rows, work), rows, out, outStride);
  if (!feedForward.hasShare) return;
  work.pool.forEachOne(rows, [&](int row) {
    const float share = float(sigmoid(double(projected[size_t(row) * stride + feedForward.shareAt()])));
    float* values = out + size_t(row) * outStride;
    for (int i = 0; i < work.stream.size; i++) values[i] *= share;
  });
}

}  // namespace chairlift
