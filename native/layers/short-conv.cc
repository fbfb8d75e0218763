// See short-conv.h.

#include "layers/short-conv.h"

#include "layers/registry.h"

namespace chairlift {

void ShortConv::run(const InputRows& input, Workspace& work, float* out) const {
  const int rows = work.batch.count();
  const size_t stride = projectedStride(), mixedStride = paddedLength(size);
  const RecurrenceKernels& kernels = work.kernels.recurrence;
  float* const projected = work.projected.rows(size_t(rows), stride);
  float* const mixed = work.inner.rows(size_t(rows), mixedStride);
  work.multiplier.apply(projection, input, rows, projected, stride);
  work.pool.forEachOne("gate rows", rows, [&](int row) {
    float* const before = projected + size_t(row) * stride;
    float* const value = before + valueAt();
    kernels.multiplyRow(value, before, /*activates=*/false, value, size);
  });
  convolveRows(convolution, layout(), state, projected + valueAt(), stride, mixed, mixedStride, work);
  work.pool.forEachOne("gate rows", rows, [&](int row) {
    float* const own = mixed + size_t(row) * mixedStride;
    kernels.multiplyRow(own, projected + size_t(row) * stride + afterAt(), /*activates=*/false, own, size);
  });
  work.multiplier.apply(output, {mixed, mixedStride, size}, rows, out, work.stream.stride);
}

std::unique_ptr<Body> readShortConv(const Record& from, Reader& reader) {
  const int hidden = reader.model.hiddenSize;
  auto body = std::make_unique<ShortConv>();
  body->size = from.integer("size");
  body->taps = from.object("convolution").integer("length");
  require(body->size > 0 && body->taps > 0, "a convolution without channels or taps");
  body->state = reader.takeState(from, body->layout());
  reader.join(body->projection, from.object("before"), 0, body->size, hidden);
  reader.join(body->projection, from.object("value"), body->valueAt(), body->size, hidden);
  reader.join(body->projection, from.object("after"), body->afterAt(), body->size, hidden);
  body->output = reader.linear(from.object("output"), hidden, body->size);
  body->convolution = readConvolution(from.object("convolution"), body->layout(), /*activates=*/false);
  return body;
}

}  // namespace chairlift
