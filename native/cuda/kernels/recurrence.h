// Recurrent layers: convolutions over the tokens of a sequence, and matrices that are updated row after row. See
// kernels/recurrence.h for the processor's. Include after heads.h.
#pragma once

#include "cuda/kernels/layer-args.h"

namespace {

CHAIRLIFT_DEVICE float* stateOf(const StateView& states, int slot) { return states.state + int64_t(slot) * states.slotStride; }

/**
 * Blocks: x are rows, y are pieces of channels, a thread has a channel. Rows before the first of a sequence in this step are in the
 * state that it starts from.
 */
CHAIRLIFT_DEVICE void convolve(const ConvolveArgs& args) {
  startNext();
  waitForPrevious();
  const int row = blockX(), channel = blockY() * threadCount() + threadIndex(), before = args.taps - 1;
  if (channel >= args.channels) return;
  const int within = row - args.states.firstRows[row], slot = args.states.fromSlots[row];
  const float* const waiting = slot < 0 ? nullptr : stateOf(args.states, slot);
  float sum = args.bias ? args.bias[channel] : 0.0f;
  for (int tap = 0; tap < args.taps; tap++) {
    const int from = within - before + tap;
    if (from < 0 && !waiting) continue;
    const float x = from < 0 ? waiting[(before + from) * args.channelStride + channel]
                             : args.x[int64_t(row - before + tap) * args.stride + channel];
    sum = fusedMultiplyAdd(args.weights[tap * args.channelStride + channel], x, sum);
  }
  args.to[int64_t(row) * args.toStride + channel] = args.activates ? silu(Vec{sum}).lane : sum;
}

/** Stores the last rows of each run in its state. Blocks: x are sequences, y are pieces of channels. */
CHAIRLIFT_DEVICE void keepWaiting(const ConvolveArgs& args) {
  startNext();
  waitForPrevious();
  const int sequence = blockX(), channel = blockY() * threadCount() + threadIndex(), waiting = args.taps - 1;
  if (channel >= args.channels) return;
  for (int i = args.states.starts[sequence]; i < args.states.starts[sequence + 1]; i++) {
    const RunOfRows run = args.states.runs[i];
    const float* const from = run.from < 0 ? nullptr : stateOf(args.states, run.from) + channel;
    float* const to = stateOf(args.states, run.to) + channel;
    // Oldest first: `from` may be `to`, and is read ahead of what is written.
    for (int place = 0; place < waiting; place++) {
      const int row = run.rows - waiting + place;
      float value = 0;
      if (row >= 0) value = args.x[int64_t(run.firstRow + row) * args.stride + channel];
      else if (from) value = from[(waiting + row) * args.channelStride];
      to[place * args.channelStride] = value;
    }
  }
}

/** A block has one row. */
CHAIRLIFT_DEVICE void multiplyRows(const MultiplyRowsArgs& args) {
  startNext();
  waitForPrevious();
  const int64_t row = blockX();
  for (int i = threadIndex(); i < args.size; i += threadCount()) {
    args.to[row * args.toStride + i] = args.x[row * args.stride + i] * args.by[row * args.byStride + i];
  }
}

/** Scales a vector to a length, by 16 lanes; all lanes of the warp take part. */
CHAIRLIFT_DEVICE void scaleToLength(float* x, int count, float length) {
  const int lane = threadIndex() % 16;
  float squares = 0;
  for (int i = lane; i < count; i += 16) squares = fusedMultiplyAdd(x[i], x[i], squares);
  const float factor = divided(length, squareRoot(sumOf16(squares) + 1e-6f));
  for (int i = lane; i < count; i += 16) x[i] = x[i] * factor;
}

/** A block has one row; half a warp has a head of queries or keys. */
CHAIRLIFT_DEVICE void prepareDelta(const PrepareDeltaArgs& args) {
  startNext();
  waitForPrevious();
  const int64_t row = blockX();
  float* const mixed = args.mixed + row * args.mixedStride;
  const int halves = threadCount() / 16, half = threadIndex() / 16, heads = 2 * args.keyHeads;
  for (int at = 0; at < heads; at += halves) {
    const int head = at + half;
    // Half a warp without a head takes part with an empty one.
    const bool isHead = head < heads;
    scaleToLength(mixed + (isHead ? head * args.keySize : 0), isHead ? args.keySize : 0,
                  head < args.keyHeads ? args.queryLength : 1.0f);
  }
  float* const shares = args.shares + row * args.stride;
  float* const decays = args.decays + row * args.stride;
  for (int head = threadIndex(); head < args.valueHeads; head += threadCount()) {
    shares[head] = sigmoid(Vec{shares[head]}).lane;
    const Vec step = softplus(Vec{decays[head]} + Vec{args.decayBias[head]});
    decays[head] = exponential(Vec{args.rates[head]} * step).lane;
  }
}

CHAIRLIFT_DEVICE void prepareScan(const PrepareScanArgs& args) {
  startNext();
  waitForPrevious();
  const int64_t at = int64_t(blockX()) * args.stride;
  for (int head = threadIndex(); head < args.heads; head += threadCount()) {
    const Vec step = softplus(Vec{args.steps[at + head]} + Vec{args.stepBias[head]});
    args.steps[at + head] = step.lane;
    args.kept[at + head] = exponential(Vec{args.rates[head]} * step).lane;
  }
}

// Rows whose inputs are read at once.
constexpr int rowsOfChunk = 8;

/** One column of a matrix, by one lane: in registers where its length is known, or in shared memory, 32 columns side by side. */
template <int length>
struct Column {
  static constexpr int unrolled = length;
  float values[length];

  CHAIRLIFT_METHOD void place(float*) {}
  CHAIRLIFT_METHOD int size(int) const { return length; }
  CHAIRLIFT_METHOD float& at(int k) { return values[k]; }
};
template <>
struct Column<0> {
  static constexpr int unrolled = 8;
  float* values;

  CHAIRLIFT_METHOD void place(float* columns) { values = columns + threadIndex(); }
  CHAIRLIFT_METHOD int size(int count) const { return count; }
  CHAIRLIFT_METHOD float& at(int k) { return values[k * 32]; }
};

/** What is needed of a row to update one column. */
struct RowOfHead {
  const float* key;
  const float* query;
  float value, kept, share;
};

/** Updates a column by a row; returns what the row reads of it. Without `has` the matrix is zero before. */
template <int length>
CHAIRLIFT_DEVICE float updateDeltaColumn(Column<length>& column, int count, const RowOfHead& row, bool has) {
  const int size = column.size(count);
  float correction = 0, read = 0;
  if (has) {
#pragma unroll Column<length>::unrolled
    for (int k = 0; k < size; k++) correction = fusedMultiplyAdd(column.at(k), row.key[k], correction);
  }
  correction = row.share * (row.value - row.kept * correction);
#pragma unroll Column<length>::unrolled
  for (int k = 0; k < size; k++) {
    const float faded = has ? column.at(k) * row.kept : 0.0f;
    const float updated = fusedMultiplyAdd(row.key[k], correction, faded);
    column.at(k) = updated;
    read = fusedMultiplyAdd(updated, row.query[k], read);
  }
  return read;
}

/** The same of a state space: its step is the share of a row. */
template <int length>
CHAIRLIFT_DEVICE float scanColumn(Column<length>& column, int count, const RowOfHead& row, float skip, bool has) {
  const int size = column.size(count);
  const float added = row.value * row.share;
  float sum = 0;
#pragma unroll Column<length>::unrolled
  for (int k = 0; k < size; k++) {
    const float faded = has ? column.at(k) * row.kept : 0.0f;
    const float next = fusedMultiplyAdd(row.key[k], added, faded);
    column.at(k) = next;
    sum = fusedMultiplyAdd(next, row.query[k], sum);
  }
  return fusedMultiplyAdd(row.value, skip, sum);
}

/**
 * A warp has 32 columns of one head's matrix and takes them through all rows of a sequence. Blocks: x are sequences, y are heads
 * times pieces of columns. Shared memory: values, decays, shares, keys and queries of a chunk of rows, then columns whose length is
 * not known.
 */
template <bool isDelta, int length>
CHAIRLIFT_DEVICE void recur(const RecurArgs& args) {
  startNext();
  waitForPrevious();
  const int pieces = (args.valueSize + 31) / 32, head = blockY() / pieces, lane = threadIndex();
  const int column = blockY() % pieces * 32 + lane;
  const bool isColumn = column < args.valueSize;
  const int keyHead = args.strided ? head % args.keyHeads : head / (args.heads / args.keyHeads);
  const float skip = isDelta ? 0.0f : args.skip[head];
  const int64_t place = args.matrixAt + head * args.matrixStride + column;
  const int firstRun = args.states.starts[blockX()], endRun = args.states.starts[blockX() + 1];
  float* const values = (float*)sharedMemory();
  float* const kept = values + rowsOfChunk * 32;
  float* const shares = kept + rowsOfChunk;
  float* const keys = shares + rowsOfChunk;
  float* const queries = keys + rowsOfChunk * args.keySize;
  Column<length> own;
  own.place(queries + rowsOfChunk * args.keySize);
  const int size = own.size(args.keySize);
  bool has = false;
  for (int index = firstRun; index < endRun; index++) {
    const RunOfRows run = args.states.runs[index];
    if (index == firstRun && run.from >= 0) {
      has = true;
      const float* const from = stateOf(args.states, run.from) + place;
#pragma unroll Column<length>::unrolled
      for (int k = 0; k < size; k++) own.at(k) = isColumn ? from[k * args.columnStride] : 0.0f;
    }
    for (int first = 0; first < run.rows; first += rowsOfChunk) {
      const int rows = run.rows - first < rowsOfChunk ? run.rows - first : rowsOfChunk;
      const int64_t row = run.firstRow + first;
      for (int r = 0; r < rows; r++) {
        const int64_t at = (row + r) * args.mixedStride + args.valuesAt + head * args.valueSize + column;
        values[r * 32 + lane] = isColumn ? args.mixed[at] : 0.0f;
      }
      if (lane < rows) {
        kept[lane] = args.kept[(row + lane) * args.stride + head];
        shares[lane] = args.shares[(row + lane) * args.stride + head];
      }
      for (int i = lane; i < rows * size; i += 32) {
        const float* const mixed = args.mixed + (row + i / size) * args.mixedStride + keyHead * size + i % size;
        keys[i] = mixed[args.keysAt];
        queries[i] = mixed[args.queriesAt];
      }
      syncWarp();
#pragma unroll 1
      for (int r = 0; r < rows; r++) {
        const RowOfHead now{keys + r * size, queries + r * size, values[r * 32 + lane], kept[r], shares[r]};
        const float output = isDelta ? updateDeltaColumn(own, size, now, has) : scanColumn(own, size, now, skip, has);
        has = true;
        if (isColumn) args.outputs[(row + r) * args.outputStride + head * args.valueSize + column] = output;
      }
      syncWarp();
    }
    if (!isColumn) continue;
    float* const to = stateOf(args.states, run.to) + place;
#pragma unroll Column<length>::unrolled
    for (int k = 0; k < size; k++) to[k * args.columnStride] = own.at(k);
  }
}

/** A warp has one head of one row. Blocks: x are rows, y are warps of heads. */
CHAIRLIFT_DEVICE void normHeads(const NormHeadsArgs& args) {
  startNext();
  waitForPrevious();
  const int head = blockY() * (threadCount() / 32) + threadIndex() / 32;
  if (head >= args.heads) return;
  float* const own = args.rows + int64_t(blockX()) * args.stride + head * args.size;
  normalizeHead(args.norm, nullptr, 0, own, args.size, 0);
}

/** A block has one row. Shared memory: the row and 64 floats. */
CHAIRLIFT_DEVICE void gateAndNorm(const GateAndNormArgs& args) {
  startNext();
  waitForPrevious();
  const int64_t row = blockX();
  float* const own = (float*)sharedMemory();
  for (int i = threadIndex(); i < args.size; i += threadCount()) {
    own[i] = args.rows[row * args.stride + i] * silu(Vec{args.gates[row * args.gateStride + i]}).lane;
  }
  syncBlock();
  normalizeRow(args.norm, own, args.size, own + args.size);
  for (int i = threadIndex(); i < args.size; i += threadCount()) args.rows[row * args.stride + i] = own[i];
}

}  // namespace
