// See per-layer-inputs.h.

#include "layers/per-layer-inputs.h"

#include "layers/registry.h"

namespace chairlift {

void makePerLayerInputs(const PerLayerInputs& inputs, const std::vector<int32_t>& tokens, Workspace& work) {
  const int rows = int(tokens.size()), width = inputs.width();
  const size_t stride = inputs.stride();
  float* const made = work.perLayerInputs.rows(size_t(rows), stride);
  work.perLayerInputStride = stride;
  float* const stored = work.gathered.rows(size_t(rows), stride);
  work.multiplier.apply(inputs.projection, work.stream.rows(), rows, made, stride);
  work.pool.forEachOne("per-layer inputs", rows, [&](int row) {
    float* const own = made + size_t(row) * stride;
    float* const fromTable = stored + size_t(row) * stride;
    const int token = work.batch.imageRow(row) < 0 ? tokens[size_t(row)] : inputs.imageToken;
    for (int i = 0; i < width; i++) own[i] *= inputs.projectionScale;
    for (int at = 0; at < width; at += inputs.size) {
      inputs.norm.apply(work.kernels, own + at, inputs.size, work.normEpsilon);
    }
    // Tokens beyond the table have its first row.
    inputs.table->unpackRow(token < inputs.table->outputs() ? token : 0, fromTable);
    work.kernels.addScaled(own, fromTable, inputs.tableScale, width);
  });
}

PerLayerInputs readPerLayerInputs(const Record& from, const Reader& reader) {
  PerLayerInputs read;
  read.count = from.integer("count");
  read.size = from.integer("size");
  require(read.count > 0 && read.size > 0, "per-layer inputs without layers or values");
  const Record& table = from.object("table");
  read.table = reader.table(table, table.integer("rows"), read.width());
  read.imageToken = from.integer("imageToken", 0);
  read.tableScale = float(from.number("tableScale"));
  read.projection = reader.linear(from.object("projection"), read.width(), reader.model.hiddenSize);
  read.projectionScale = float(from.number("projectionScale"));
  read.norm = readNorm(from.object("norm"), read.size);
  return read;
}

void PerLayerInput::run(const InputRows& input, Workspace& work, float* out) const {
  const int rows = work.batch.count();
  const size_t stride = paddedLength(size);
  float* const gates = work.inner.rows(size_t(rows), stride);
  work.multiplier.apply(gate, input, rows, gates, stride);
  InputRows gated{gates, stride, size};
  gated.form = InputForm::Gated;
  gated.curve = curve;
  gated.up = work.perLayerInputs.data() + size_t(index) * size_t(size);
  gated.upStride = work.perLayerInputStride;
  work.multiplier.apply(output, gated, rows, out, work.stream.stride);
}

std::unique_ptr<Body> readPerLayerInput(const Record& from, Reader& reader) {
  const ModelParts& model = reader.model;
  require(model.perLayerInputs.has_value(), "a layer's input in a model without per-layer inputs");
  auto body = std::make_unique<PerLayerInput>();
  body->index = from.integer("index");
  body->size = model.perLayerInputs->size;
  require(body->index >= 0 && body->index < model.perLayerInputs->count, "no such layer's input");
  body->curve = readCurve(from);
  require(body->curve.kind != Activation::Clamped, "a clamped activation of a layer's input");
  body->gate = reader.linear(from.object("gate"), body->size, model.hiddenSize);
  body->output = reader.linear(from.object("output"), model.hiddenSize, body->size);
  return body;
}

}  // namespace chairlift
