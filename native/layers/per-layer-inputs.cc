// See per-layer-inputs.h.

#include "layers/per-layer-inputs.h"

namespace chairlift {

void makePerLayerInputs(const PerLayerInputs& inputs, const std::vector<int32_t>& tokens, Workspace& work) {
  const int rows = int(tokens.size()), width = inputs.width();
  const size_t stride = inputs.stride();
  float* const made = work.perLayerInputs.rows(size_t(rows), stride);
  work.perLayerInputStride = stride;
  float* const stored = work.gathered.rows(size_t(rows), stride);
  work.multiplier.apply(inputs.projection, work.stream.rows(), rows, made, stride);
  work.pool.forEachOne(rows, [&](int row) {
    float* const own = made + size_t(row) * stride;
    float* const fromTable = stored + size_t(row) * stride;
    const int token = tokens[size_t(row)];
    for (int i = 0; i < width; i++) own[i] *= inputs.projectionScale;
    for (int at = 0; at < width; at += inputs.size) {
      inputs.norm.apply(work.kernels, own + at, inputs.size, work.normEpsilon);
    }
    // Tokens beyond the table have its first row.
    inputs.table->unpackRow(token < inputs.table->outputs() ? token : 0, fromTable);
    work.kernels.addScaled(own, fromTable, inputs.tableScale, width);
  });
}

void runPerLayerInput(const PerLayerInput& body, const InputRows& input, Workspace& work, float* out) {
  const int rows = work.batch.count();
  const size_t stride = paddedLength(body.size);
  float* const gates = work.inner.rows(size_t(rows), stride);
  work.multiplier.apply(body.gate, input, rows, gates, stride);
  InputRows gated{gates, stride, body.size};
  gated.form = InputForm::Gated;
  gated.curve = body.curve;
  gated.up = work.perLayerInputs.data() + size_t(body.index) * size_t(body.size);
  gated.upStride = work.perLayerInputStride;
  work.multiplier.apply(body.output, gated, rows, out, work.stream.stride);
}

}  // namespace chairlift
