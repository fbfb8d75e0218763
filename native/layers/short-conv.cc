// A convolution between two gates: see ShortConvSpec in src/model/layers/short-conv.ts.

#include "layers/causal-conv.h"
#include "layers/registry.h"

namespace chairlift {

namespace {

struct ShortConv final : Body {
  // Index of its recurrent state.
  int state = 0;
  int size = 0;
  // The gate before (B of LFM 2), the value (x), the gate after (C).
  Linear projection;
  Linear output;
  int taps = 1;
  Convolution convolution;

  StateLayout layout() const { return {size, taps}; }
  size_t valueAt() const { return paddedLength(size); }
  size_t afterAt() const { return 2 * paddedLength(size); }
  size_t projectedStride() const { return 3 * paddedLength(size); }

  void run(const InputRows& input, Workspace& work, float* out) const override {
    const int rows = work.batch.count();
    const size_t stride = projectedStride(), mixedStride = paddedLength(size);
    const RecurrenceKernels& kernels = work.kernels.recurrence;
    float* const projected = work.projected.rows(size_t(rows), stride);
    float* const mixed = work.inner.rows(size_t(rows), mixedStride);
    work.multiplier.apply(projection, input, rows, projected, stride);
    work.pool.forEachOne(rows, [&](int row) {
      float* const before = projected + size_t(row) * stride;
      float* const value = before + valueAt();
      kernels.multiplyRow(value, before, /*activates=*/false, value, size);
    });
    convolveRows(convolution, layout(), state, projected + valueAt(), stride, mixed, mixedStride, work);
    work.pool.forEachOne(rows, [&](int row) {
      float* const own = mixed + size_t(row) * mixedStride;
      kernels.multiplyRow(own, projected + size_t(row) * stride + afterAt(), /*activates=*/false, own, size);
    });
    work.multiplier.apply(output, {mixed, mixedStride, size}, rows, out, work.stream.stride);
  }
};

}  // namespace

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
