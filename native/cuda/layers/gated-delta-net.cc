// See layers/gated-delta-net.h.

#include "layers/gated-delta-net.h"

#include <cmath>

#include "cuda/layers/causal-conv.h"
#include "cuda/layers/recurrent.h"
#include "cuda/layers/registry.h"

namespace chairlift {
namespace cuda {

void launch(const GatedDeltaNet& net, const Input& input, Work& work, float* out) {
  const StateLayout layout = net.layout();
  const size_t stride = net.projectedStride(), mixedStride = layout.channelStride(), outputStride = paddedLength(net.valueRows());
  float* const projected = work.scratch("projected", stride);
  float* const mixed = work.scratch("mixed", mixedStride);
  float* const outputs = work.scratch("attended", outputStride);
  work.multiplier.apply(net.projection, input, work.rows, projected, stride);
  convolveRows(net.convolution, layout, net.state, projected, stride, mixed, mixedStride, work);

  PrepareDeltaArgs prepare{};
  prepare.mixed = mixed;
  prepare.mixedStride = int64_t(mixedStride);
  prepare.keyHeads = net.keyHeads;
  prepare.keySize = net.keySize;
  prepare.queryLength = 1.0f / std::sqrt(float(net.keySize));
  prepare.shares = projected + net.sharesAt();
  prepare.decays = projected + net.decaysAt();
  prepare.stride = int64_t(stride);
  prepare.valueHeads = net.valueHeads;
  prepare.decayBias = work.weights.vector(net.decayBias);
  prepare.rates = work.weights.vector(net.rates);
  work.device.launch("prepare_delta", {work.rows, 1, 256, 0}, prepare);

  RecurArgs update{};
  update.keyHeads = net.keyHeads;
  update.strided = net.strided;
  update.mixed = mixed;
  update.mixedStride = int64_t(mixedStride);
  update.keysAt = net.keyRows();
  update.valuesAt = 2 * net.keyRows();
  update.kept = prepare.decays;
  update.shares = prepare.shares;
  update.stride = int64_t(stride);
  update.outputs = outputs;
  update.outputStride = int64_t(outputStride);
  launchRecurrence("update_delta", update, layout, net.state, work);

  NormHeadsArgs norm{outputs, int64_t(outputStride), net.valueHeads, net.valueSize, work.norm(net.norm)};
  work.device.launch("norm_heads", {work.rows, (net.valueHeads + 3) / 4, 128, 0}, norm);
  Input gated{projected + net.gateAt(), stride, net.valueRows()};
  gated.form = InputForm::Gated;
  gated.curve.kind = Activation::Silu;
  gated.up = outputs;
  gated.upStride = outputStride;
  work.multiplier.apply(net.output, gated, work.rows, out, work.stream.stride);
}

}  // namespace cuda
}  // namespace chairlift
