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

/** Updates one column of a matrix by a row; returns what the row reads of it. Without `has` the matrix is zero before. */
CHAIRLIFT_DEVICE float updateDeltaColumn(float* state, int size, const float* key, const float* query, float value, float kept,
                                         float share, bool has) {
  float correction = 0, read = 0;
  if (has) {
#pragma unroll 8
    for (int k = 0; k < size; k++) correction = fusedMultiplyAdd(state[k * 32], key[k], correction);
  }
  correction = share * (value - kept * correction);
#pragma unroll 8
  for (int k = 0; k < size; k++) {
    const float faded = has ? state[k * 32] * kept : 0.0f;
    const float updated = fusedMultiplyAdd(key[k], correction, faded);
    state[k * 32] = updated;
    read = fusedMultiplyAdd(updated, query[k], read);
  }
  return read;
}

/** The same of a state space. */
CHAIRLIFT_DEVICE float scanColumn(float* state, int size, const float* write, const float* read, float value, float kept,
                                  float step, float skip, bool has) {
  const float added = value * step;
  float sum = 0;
#pragma unroll 8
  for (int n = 0; n < size; n++) {
    const float faded = has ? state[n * 32] * kept : 0.0f;
    const float next = fusedMultiplyAdd(write[n], added, faded);
    state[n * 32] = next;
    sum = fusedMultiplyAdd(next, read[n], sum);
  }
  return fusedMultiplyAdd(value, skip, sum);
}

/**
 * A warp has 32 columns of one head's matrix and takes them through all rows of a sequence. Blocks: x are sequences, y are heads
 * times pieces of columns. Shared memory: the columns, then keys and queries of a chunk of rows.
 */
template <bool isDelta>
CHAIRLIFT_DEVICE void recur(const RecurArgs& args) {
  waitForPrevious();
  const int pieces = (args.valueSize + 31) / 32, head = blockY() / pieces, lane = threadIndex();
  const int column = blockY() % pieces * 32 + lane, size = args.keySize;
  const bool isColumn = column < args.valueSize;
  const int keyHead = args.strided ? head % args.keyHeads : head / (args.heads / args.keyHeads);
  float* const columns = (float*)sharedMemory();
  float* const keys = columns + size * 32;
  float* const queries = keys + rowsOfChunk * size;
  const int64_t place = args.matrixAt + head * args.matrixStride + column;
  const int firstRun = args.states.starts[blockX()], endRun = args.states.starts[blockX() + 1];
  bool has = false;
  for (int index = firstRun; index < endRun; index++) {
    const RunOfRows run = args.states.runs[index];
    if (index == firstRun && run.from >= 0) {
      has = true;
      const float* const from = stateOf(args.states, run.from) + place;
#pragma unroll 8
      for (int k = 0; k < size; k++) columns[k * 32 + lane] = isColumn ? from[k * args.columnStride] : 0.0f;
    }
    for (int first = 0; first < run.rows; first += rowsOfChunk) {
      const int rows = run.rows - first < rowsOfChunk ? run.rows - first : rowsOfChunk;
      const int64_t row = run.firstRow + first;
      float value[rowsOfChunk], kept[rowsOfChunk], share[rowsOfChunk];
#pragma unroll
      for (int r = 0; r < rowsOfChunk; r++) {
        const int64_t own = row + (r < rows ? r : 0);
        value[r] = isColumn ? args.mixed[own * args.mixedStride + args.valuesAt + head * args.valueSize + column] : 0.0f;
        kept[r] = args.kept[own * args.stride + head];
        share[r] = args.shares[own * args.stride + head];
      }
      for (int i = lane; i < rows * size; i += 32) {
        const float* const mixed = args.mixed + (row + i / size) * args.mixedStride + keyHead * size + i % size;
        keys[i] = mixed[args.keysAt];
        queries[i] = mixed[args.queriesAt];
      }
      syncWarp();
#pragma unroll
      for (int r = 0; r < rowsOfChunk; r++) {
        if (r >= rows) break;
        const float* const key = keys + r * size;
        const float* const query = queries + r * size;
        const float output = isDelta ? updateDeltaColumn(columns + lane, size, key, query, value[r], kept[r], share[r], has)
                                     : scanColumn(columns + lane, size, key, query, value[r], kept[r], share[r],
                                                  args.skip[head], has);
        has = true;
        if (isColumn) args.outputs[(row + r) * args.outputStride + head * args.valueSize + column] = output;
      }
      syncWarp();
    }
    if (!isColumn) continue;
    float* const to = stateOf(args.states, run.to) + place;
#pragma unroll 8
    for (int k = 0; k < size; k++) to[k * args.columnStride] = columns[k * 32 + lane];
  }
}

/** A warp has one head of one row. Blocks: x are rows, y are warps of heads. */
CHAIRLIFT_DEVICE void normHeads(const NormHeadsArgs& args) {
  waitForPrevious();
  const int head = blockY() * (threadCount() / 32) + threadIndex() / 32;
  if (head >= args.heads) return;
  float* const own = args.rows + int64_t(blockX()) * args.stride + head * args.size;
  normalizeHead(args.norm, nullptr, 0, own, args.size, 0);
}

/** A block has one row. Shared memory: the row and 64 floats. */
CHAIRLIFT_DEVICE void gateAndNorm(const GateAndNormArgs& args) {
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
