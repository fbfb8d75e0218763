// See layers/causal-conv.h.

#include "cuda/layers/causal-conv.h"

namespace chairlift {
namespace cuda {

namespace {

constexpr int channelThreads = 128;

}  // namespace

void convolveRows(const Convolution& convolution, const StateLayout& layout, int state, const float* channels, size_t stride,
                  float* to, size_t toStride, Work& work) {
  ConvolveArgs args{};
  args.states = work.states.view(state);
  args.x = channels;
  args.stride = int64_t(stride);
  args.to = to;
  args.toStride = int64_t(toStride);
  args.weights = work.weights.vector(convolution.weights);
  args.bias = work.weights.vector(convolution.bias);
  args.channelStride = int64_t(layout.channelStride());
  args.channels = layout.channels;
  args.taps = layout.taps;
  args.activates = convolution.activates;
  const int pieces = (layout.channels + channelThreads - 1) / channelThreads;
  // Most sequences have one row.
  if (work.rows == work.states.sequences) {
    work.device.launch("convolve_sequences", {work.states.sequences, pieces, channelThreads, 0}, args);
    return;
  }
  work.device.launch("convolve_rows", {work.rows, pieces, channelThreads, 0}, args);
  // After all rows have read the states that their sequences start from.
  if (layout.taps > 1) work.device.launch("keep_waiting", {work.states.sequences, pieces, channelThreads, 0}, args);
}

}  // namespace cuda
}  // namespace chairlift
