// See layers/mamba2.h.

#include "layers/mamba2.h"

#include "cuda/layers/causal-conv.h"
#include "cuda/layers/recurrent.h"
#include "cuda/layers/registry.h"

namespace chairlift {
namespace cuda {

void launch(const Mamba2& space, const Input& input, Work& work, float* out) {
  const StateLayout layout = space.layout();
  const size_t stride = space.projectedStride(), mixedStride = layout.channelStride();
  const size_t outputStride = paddedLength(space.valueRows());
  float* const projected = work.scratch("projected", stride);
  float* const mixed = work.scratch("mixed", mixedStride);
  float* const outputs = work.scratch("attended", outputStride);
  work.multiplier.apply(space.projection, input, work.rows, projected, stride);
  convolveRows(space.convolution, layout, space.state, projected, stride, mixed, mixedStride, work);

  PrepareScanArgs prepare{};
  prepare.steps = projected + space.stepsAt();
  prepare.kept = projected + space.keptAt();
  prepare.stride = int64_t(stride);
  prepare.heads = space.heads;
  prepare.stepBias = work.weights.vector(space.stepBias);
  prepare.rates = work.weights.vector(space.rates);
  work.device.launch("prepare_scan", {work.rows, 1, 128, 0}, prepare);

  RecurArgs scan{};
  scan.keyHeads = space.groups;
  scan.mixed = mixed;
  scan.mixedStride = int64_t(mixedStride);
  scan.keysAt = space.valueRows();
  scan.queriesAt = space.valueRows() + space.groupRows();
  scan.kept = prepare.kept;
  scan.shares = prepare.steps;
  scan.stride = int64_t(stride);
  scan.skip = work.weights.vector(space.skip);
  scan.outputs = outputs;
  scan.outputStride = int64_t(outputStride);
  launchRecurrence("scan_states", scan, layout, space.state, work);

  GateAndNormArgs gate{};
  gate.rows = outputs;
  gate.stride = int64_t(outputStride);
  gate.gates = projected + space.gateAt();
  gate.gateStride = int64_t(stride);
  gate.size = space.valueRows();
  gate.norm = work.norm(space.norm);
  work.device.launch("gate_and_norm", {work.rows, 1, 256, (size_t(gate.size) + 64) * sizeof(float)}, gate);
  work.multiplier.apply(space.output, {outputs, outputStride, space.valueRows()}, work.rows, out, work.stream.stride);
}

}  // namespace cuda
}  // namespace chairlift
