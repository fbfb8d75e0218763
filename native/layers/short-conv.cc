// See short-conv.h.

#include "layers/short-conv.h"

namespace chairlift {

void runShortConv(const ShortConv& body, const InputRows& input, Workspace& work, float* out) {
  const int rows = work.batch.count();
  const size_t stride = body.projectedStride(), mixedStride = paddedLength(body.size);
  const RecurrenceKernels& kernels = work.kernels.recurrence;
  float* const projected = work.projected.rows(size_t(rows), stride);
  float* const mixed = work.inner.rows(size_t(rows), mixedStride);
  work.multiplier.apply(body.projection, input, rows, projected, stride);
  work.pool.forEachOne(rows, [&](int row) {
    float* const before = projected + size_t(row) * stride;
    float* const value = before + body.valueAt();
    kernels.multiplyRow(value, before, false, value, body.size);
  });
  convolveRows(body.convolution, body.layout(), body.state, projected + body.valueAt(), stride, mixed, mixedStride, work);
  work.pool.forEachOne(rows, [&](int row) {
    float* const own = mixed + size_t(row) * mixedStride;
    kernels.multiplyRow(own, projected + size_t(row) * stride + body.afterAt(), false, own, body.size);
  });
  work.multiplier.apply(body.output, {mixed, mixedStride, body.size}, rows, out, work.stream.stride);
}

}  // namespace chairlift
