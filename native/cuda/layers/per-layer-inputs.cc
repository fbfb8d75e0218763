// See layers/per-layer-inputs.h.

#include "cuda/layers/per-layer-inputs.h"

#include "cuda/layers/registry.h"

namespace chairlift {
namespace cuda {

void makePerLayerInputs(const PerLayerInputs& inputs, Work& work) {
  const size_t stride = inputs.stride();
  // A row more: whole groups of the last layer's values may reach past the end.
  float* const made = work.scratch("perLayerInputs", size_t(work.rows) + 1, stride);
  work.multiplier.apply(inputs.projection, work.stream.rows(), work.rows, made, stride);
  FinishPerLayerInputsArgs args{};
  args.projected = made;
  args.stride = int64_t(stride);
  args.size = inputs.size;
  args.scale = inputs.projectionScale;
  args.norm = work.norm(inputs.norm);
  args.table = work.weights.matrix(*inputs.table);
  args.tableScale = inputs.tableScale;
  args.tokens = work.tables.tokens;
  const size_t shared = (size_t(inputs.size) + 64) * sizeof(float);
  work.device.launch("finish_per_layer_inputs", {work.rows, inputs.count, 256, shared}, args);
  work.perLayerInputs = made;
  work.perLayerInputStride = stride;
}

void launch(const PerLayerInput& body, const Input& input, Work& work, float* out) {
  const size_t stride = paddedLength(body.size);
  float* const gates = work.scratch("inner", stride);
  work.multiplier.apply(body.gate, input, work.rows, gates, stride);
  Input gated{gates, stride, body.size};
  gated.form = InputForm::Gated;
  gated.curve = body.curve;
  gated.up = work.perLayerInputs + size_t(body.index) * size_t(body.size);
  gated.upStride = work.perLayerInputStride;
  work.multiplier.apply(body.output, gated, work.rows, out, work.stream.stride);
}

}  // namespace cuda
}  // namespace chairlift
