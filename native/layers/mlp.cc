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

/** Projected rows as `down` reads them. */
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

}  // namespace

void multiplyMlp(const Mlp& mlp, const InputRows& input, const std::vector<RowRun>& runs, float* projected,
                 const int32_t* owners, Workspace& work, float* out, size_t outStride) {
  const int count = runs.empty() ? 0 : runs.back().firstRow + runs.back().rows;
  if (count == 0) return;
  Multiplier& multiplier = work.multiplier;
  if (mlp.hasGate && !mlp.gateCutoff && multiplier.canGate(mlp.projection, mlp.down)) {
    return multiplier.applyGated(mlp.projection, input, mlp.down, activatedRows(mlp, projected, count, work), runs, out, outStride);
  }
  multiplier.apply(mlp.projection, input, runs, projected, mlp.projectedStride());
  InputRows activated = activatedRows(mlp, projected, count, work);
  activated.owners = owners;
  multiplier.apply(mlp.down, activated, runs, out, outStride);
}

void Mlp::run(const InputRows& input, Workspace& work, float* out) const {
  const int rows = work.batch.count();
  const size_t stride = projectedStride(), outStride = work.stream.stride;
  float* const projected = work.inner.rows(size_t(rows), stride);
  multiplyMlp(*this, input, {{0, 0, rows}}, projected, nullptr, work, out, outStride);
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
