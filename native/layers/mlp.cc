// See mlp.h.

#include "layers/mlp.h"

#include "layers/registry.h"
#include "model/exponential.h"

namespace chairlift {

namespace {

void cutGates(float* gates, int count, float cutoff, const KernelTable& kernels) {
  const RowScale scale = kernels.rowScale(NormKind::Layer, gates, count, 0);
  const float limit = scale.mean + cutoff / scale.factor;
  // NaN stays NaN.
  for (int i = 0; i < count; i++) gates[i] = gates[i] < limit ? 0.0f : gates[i] - limit;
}

}  // namespace

InputRows activatedRows(const Mlp& mlp, float* projected, int count, Workspace& work) {
  if (mlp.gateCutoff) {
    work.pool.forEachOne("cut gates", count, [&](int row) {
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

void Mlp::run(const InputRows& input, Workspace& work, float* out) const {
  const int rows = work.batch.count();
  const size_t stride = projectedStride(), outStride = work.stream.stride;
  float* const projected = work.inner.rows(size_t(rows), stride);
  work.multiplier.apply(projection, input, rows, projected, stride);
  work.multiplier.apply(down, activatedRows(*this, projected, rows, work), rows, out, outStride);
  if (!gated) return;
  work.pool.forEachOne("scale shared expert", rows, [&](int row) {
    const float share = float(sigmoid(double(projected[size_t(row) * stride + shareAt()])));
    float* values = out + size_t(row) * outStride;
    for (int i = 0; i < work.stream.size; i++) values[i] *= share;
  });
}

Mlp readMlp(const Record& from, const Reader& reader, int members) {
  const int hidden = reader.model.hiddenSize;
  Mlp read;
  read.size = from.integer("size");
  read.curve = readCurve(from);
  read.hasGate = from.has("gate");
  read.gated = from.has("share");
  require(read.hasGate || read.curve.kind != Activation::Clamped, "a clamped activation without a gate");
  if (read.hasGate && from.has("gateCutoff")) read.gateCutoff = float(from.number("gateCutoff"));
  if (read.hasGate) reader.join(read.projection, from.object("gate"), 0, read.size, hidden, members);
  reader.join(read.projection, from.object("up"), read.upAt(), read.size, hidden, members);
  if (read.gated) reader.join(read.projection, from.object("share"), read.shareAt(), 1, hidden, members);
  read.down = reader.linear(from.object("down"), hidden, read.size, members);
  return read;
}

std::unique_ptr<Body> readMlp(const Record& from, Reader& reader) {
  return std::make_unique<Mlp>(readMlp(from, reader, 1));
}

}  // namespace chairlift
