// See laurel.h.

#include "layers/laurel.h"

namespace chairlift {

void runLaurel(const Laurel& body, const InputRows& input, Workspace& work, float* out) {
  const int rows = work.batch.count(), size = work.stream.size;
  const size_t innerStride = paddedLength(body.rank), stride = work.stream.stride;
  float* const inner = work.inner.rows(size_t(rows), innerStride);
  float* const seen = work.gathered.rows(size_t(rows), stride);
  work.multiplier.apply(body.down, input, rows, inner, innerStride);
  work.multiplier.apply(body.up, {inner, innerStride, body.rank}, rows, out, stride);
  work.pool.forEachOne(rows, [&](int row) {
    float* const own = out + size_t(row) * stride;
    const float* x = input.x + size_t(row) * input.stride;
    if (input.form == InputForm::Normalized) {
      float* const normalized = seen + size_t(row) * stride;
      work.kernels.normalize(x, input.scales[row], input.norm->weight.data(), input.norm->biasOrNull(), normalized,
                             size);
      x = normalized;
    }
    body.norm.apply(work.kernels, own, size, work.normEpsilon);
    work.kernels.addScaled(own, x, 1.0f, size);
  });
}

}  // namespace chairlift
