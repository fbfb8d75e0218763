// See feed-forward.h.

#include "model/feed-forward.h"

#include "model/exponential.h"

namespace chairlift {

InputRows activatedRows(const FeedForward& feedForward, float* projected) {
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
  work.multiplier.apply(feedForward.down, activatedRows(feedForward, projected), rows, out, outStride);
  if (!feedForward.hasShare) return;
  work.pool.forEachOne(rows, [&](int row) {
    const float share = float(sigmoid(double(projected[size_t(row) * stride + feedForward.shareAt()])));
    float* values = out + size_t(row) * outStride;
    for (int i = 0; i < work.stream.size; i++) values[i] *= share;
  });
}

}  // namespace chairlift
