// See laurel.h.

#include "layers/laurel.h"

#include "layers/registry.h"

namespace chairlift {

void Laurel::run(const InputRows& input, Workspace& work, float* out) const {
  const int rows = work.batch.count(), size = work.stream.size;
  const size_t innerStride = paddedLength(rank), stride = work.stream.stride;
  float* const inner = work.inner.rows(size_t(rows), innerStride);
  float* const seen = work.gathered.rows(size_t(rows), stride);
  work.multiplier.apply(down, input, rows, inner, innerStride);
  work.multiplier.apply(up, {inner, innerStride, rank}, rows, out, stride);
  work.pool.forEachOne("add low-rank residual", rows, [&](int row) {
    float* const own = out + size_t(row) * stride;
    const float* x = input.x + size_t(row) * input.stride;
    if (input.form == InputForm::Normalized) {
      float* const normalized = seen + size_t(row) * stride;
      work.kernels.normalize(x, input.scales[row], input.norm->weight.data(), input.norm->biasOrNull(), normalized,
                             size);
      x = normalized;
    }
    norm.apply(work.kernels, own, size, work.normEpsilon);
    work.kernels.addScaled(own, x, 1.0f, size);
  });
}

std::unique_ptr<Body> readLaurel(const Record& from, Reader& reader) {
  const int hidden = reader.model.hiddenSize;
  auto body = std::make_unique<Laurel>();
  body->rank = reader.outputsOf(from.object("down"));
  body->down = reader.linear(from.object("down"), body->rank, hidden);
  body->up = reader.linear(from.object("up"), hidden, body->rank);
  body->norm = readNorm(from.object("norm"), hidden);
  return body;
}

}  // namespace chairlift
