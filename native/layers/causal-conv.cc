// See causal-conv.h.

#include "layers/causal-conv.h"

#include <algorithm>
#include <cstring>

namespace chairlift {

namespace {

constexpr int pieceChannels = 512;

/** Stores the last rows of a run in its state, after those that were stored before if the run is short. */
void keepWaiting(const StateLayout& layout, const StateRun& run, const float* rows, size_t stride, const float* from,
                 float* to, int begin, int end) {
  const int waiting = layout.waitingRows();
  const size_t bytes = size_t(end - begin) * sizeof(float), stateStride = layout.channelStride();
  // Oldest first: `from` may be `to`, and is read ahead of what is written.
  for (int i = 0; i < waiting; i++) {
    const int row = run.rows - waiting + i;
    float* kept = to + size_t(i) * stateStride + begin;
    if (row >= 0) memcpy(kept, rows + size_t(row) * stride + begin, bytes);
    else if (from) memmove(kept, from + size_t(waiting + row) * stateStride + begin, bytes);
    else memset(kept, 0, bytes);
  }
}

}  // namespace

/** Weights come channel by channel; kernels want them tap by tap. */
Convolution readConvolution(const Record& from, const StateLayout& layout, bool activates) {
  const size_t channels = size_t(layout.channels), taps = size_t(layout.taps), stride = layout.channelStride();
  const std::vector<float> weights = from.floats("weight", channels * taps);
  Convolution read;
  read.activates = activates;
  read.weights.resize(taps * stride);
  for (size_t channel = 0; channel < channels; channel++) {
    for (size_t tap = 0; tap < taps; tap++) read.weights[tap * stride + channel] = weights[channel * taps + tap];
  }
  read.bias = from.maybeFloats("bias", channels);
  if (!read.bias.empty()) read.bias.resize(stride);
  return read;
}

void convolveRows(const Convolution& convolution, const StateLayout& layout, int state, const float* channels,
                  size_t stride, float* to, size_t toStride, Workspace& work) {
  const int width = int(roundUp16(size_t(layout.channels)));
  const int pieces = (width + pieceChannels - 1) / pieceChannels;
  const std::vector<std::vector<StateRun>>& sequences = work.batch.stateRuns();
  work.pool.forEachOne("convolution", int(sequences.size()) * pieces, [&](int index) {
    const int begin = index % pieces * pieceChannels, end = std::min(width, begin + pieceChannels);
    for (const StateRun& run : sequences[size_t(index / pieces)]) {
      const float* const rows = channels + size_t(run.firstRow) * stride;
      const float* const from = work.recurrentStates.at(run.from, state);
      ConvolutionTask task;
      task.rows = run.rows;
      task.x = rows;
      task.stride = stride;
      task.to = to + size_t(run.firstRow) * toStride;
      task.toStride = toStride;
      task.waiting = from;
      task.waitingStride = layout.channelStride();
      task.weights = convolution.weights.data();
      task.weightStride = layout.channelStride();
      task.taps = layout.taps;
      task.bias = convolution.bias.empty() ? nullptr : convolution.bias.data();
      task.begin = begin;
      task.end = end;
      task.activates = convolution.activates;
      work.kernels.recurrence.convolve(task);
      keepWaiting(layout, run, rows, stride, from, work.recurrentStates.at(run.to, state), begin, end);
    }
  });
}

}  // namespace chairlift
