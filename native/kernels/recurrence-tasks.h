// Tasks of the kernels of recurrence.h: rows of one sequence, some of their columns.
#pragma once

#include <cstddef>
#include <cstdint>

namespace chairlift {

struct ConvolutionTask {
  int32_t rows;
  const float* x;
  size_t stride;
  float* to;
  size_t toStride;
  // The `taps - 1` rows before the first, the oldest first; null at the start of a sequence.
  const float* waiting;
  size_t waitingStride;
  // A row for each tap, the oldest first.
  const float* weights;
  size_t weightStride;
  int32_t taps;
  // Null: none.
  const float* bias;
  // Channels; rows are padded to 16.
  int32_t begin, end;
  bool activates;
};

/** One head of a gated delta net. Rows of queries, keys and values are `stride` apart. */
struct DeltaTask {
  int32_t rows;
  const float* queries;
  const float* keys;
  const float* values;
  size_t stride;
  // One value a row, `headStride` apart: the decay of the matrix, and the share of a correction.
  const float* kept;
  const float* shares;
  size_t headStride;
  float* outputs;
  size_t outputStride;
  // The matrix before, null at the start of a sequence, and after: a row for each value of a key.
  const float* from;
  float* state;
  size_t stateStride;
  int32_t keySize;
  int32_t valueSize;
  // Columns of the matrix: multiples of 16.
  int32_t begin, end;
};

/** One head of a state space. Rows of values, writes and reads are `stride` apart. */
struct ScanTask {
  int32_t rows;
  const float* values;
  const float* writes;
  const float* reads;
  size_t stride;
  // One value a row, `headStride` apart.
  const float* kept;
  const float* steps;
  size_t headStride;
  float skip;
  float* outputs;
  size_t outputStride;
  // The matrix before, null at the start of a sequence, and after: a row for each value of the state.
  const float* from;
  float* state;
  size_t stateStride;
  int32_t stateSize;
  int32_t headSize;
  // Columns of the matrix: multiples of 16.
  int32_t begin, end;
};

struct RecurrenceKernels {
  void (*convolve)(const ConvolutionTask& task);
  void (*updateDelta)(const DeltaTask& task);
  void (*scan)(const ScanTask& task);
  /** steps = softplus(x + bias), where not null; kept = e^(rate * step). */
  void (*stepsAndDecays)(const float* x, const float* bias, const float* rates, float* steps, float* kept, int count);
  void (*sigmoids)(const float* x, float* to, int count);
  /** Scales a vector to a length; an epsilon keeps zeros finite. */
  void (*toLength)(float* x, int count, float length);
  /** to = x * by, or x * silu(by). */
  void (*multiplyRow)(const float* x, const float* by, bool activates, float* to, int count);
};

}  // namespace chairlift
