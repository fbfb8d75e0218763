// Recurrent layers: convolutions over the tokens of a sequence, and matrices that are updated row after row. See
// kernels/recurrence.h for the processor's. Include after heads.h.
#pragma once

#include "cuda/kernels/layer-args.h"

namespace {

CHAIRLIFT_DEVICE float* stateOf(const StateView& states, int slot) { return states.state + int64_t(slot) * states.slotStride; }

/** One channel of a row. Rows before the first of a sequence in this step are in the state that it starts from. */
CHAIRLIFT_DEVICE void convolveChannel(const ConvolveArgs& args, int row, int channel) {
  const int within = row - args.states.firstRows[row], slot = args.states.fromSlots[row], before = args.taps - 1;
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

/** Stores the last values of a channel in the state of a run. */
CHAIRLIFT_DEVICE void keepChannel(const ConvolveArgs& args, const RunOfRows& run, int channel) {
  const int waiting = args.taps - 1;
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

/** Blocks: x are rows, y are pieces of channels, a thread has a channel. */
CHAIRLIFT_DEVICE void convolve(const ConvolveArgs& args) {
  startNext();
  waitForPrevious();
  const int channel = blockY() * threadCount() + threadIndex();
  if (channel < args.channels) convolveChannel(args, blockX(), channel);
}

/** The states of rows that `convolve` has taken. Blocks: x are sequences, y are pieces of channels. */
CHAIRLIFT_DEVICE void keepWaiting(const ConvolveArgs& args) {
  startNext();
  waitForPrevious();
  const int channel = blockY() * threadCount() + threadIndex();
  if (channel >= args.channels) return;
  for (int i = args.states.starts[blockX()]; i < args.states.starts[blockX() + 1]; i++) {
    keepChannel(args, args.states.runs[i], channel);
  }
}

/** Both, for sequences with few rows: a thread has a channel of a sequence. */
CHAIRLIFT_DEVICE void convolveSequences(const ConvolveArgs& args) {
  startNext();
  waitForPrevious();
  const int channel = blockY() * threadCount() + threadIndex();
  if (channel >= args.channels) return;
  const int first = args.states.starts[blockX()], end = args.states.starts[blockX() + 1];
  for (int i = first; i < end; i++) {
    const RunOfRows run = args.states.runs[i];
    for (int row = 0; row < run.rows; row++) convolveChannel(args, run.firstRow + row, channel);
  }
  for (int i = first; i < end; i++) keepChannel(args, args.states.runs[i], channel);
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

// Rows whose inputs are read at once, while those before are taken.
constexpr int rowsOfChunk = 8;

/**
 * One column of a matrix, by one lane: in registers where its length is known, or in shared memory, 32 columns side by side. Values
 * are taken `step` at a time.
 */
template <int length>
struct Column {
  static constexpr int step = 4, unrolled = length;
  float values[length];

  CHAIRLIFT_METHOD void place(float*) {}
  CHAIRLIFT_METHOD int size(int) const { return length; }
  CHAIRLIFT_METHOD float& at(int k) { return values[k]; }
  static CHAIRLIFT_METHOD void read(const float* from, float (&to)[step]) {
    const Floats4 own = *(const Floats4*)from;
    to[0] = own.x;
    to[1] = own.y;
    to[2] = own.z;
    to[3] = own.w;
  }
};
template <>
struct Column<0> {
  static constexpr int step = 1, unrolled = 8;
  float* values;

  CHAIRLIFT_METHOD void place(float* columns) { values = columns + threadIndex(); }
  CHAIRLIFT_METHOD int size(int count) const { return count; }
  CHAIRLIFT_METHOD float& at(int k) { return values[k * 32]; }
  static CHAIRLIFT_METHOD void read(const float* from, float (&to)[step]) { to[0] = from[0]; }
};

/** What is needed of a row to update one column. */
struct RowOfHead {
  const float* key;
  const float* query;
  float value, kept, share;
  // What the column is multiplied by: `kept`, or 0 where there was no matrix before.
  float fading;
};

/** What a column has for a key. */
template <int length>
CHAIRLIFT_DEVICE float readColumn(Column<length>& column, int size, const float* key) {
  using Own = Column<length>;
  float sum = 0;
#pragma unroll Own::unrolled / Own::step
  for (int k = 0; k < size; k += Own::step) {
    float keys[Own::step];
    Own::read(key + k, keys);
#pragma unroll
    for (int i = 0; i < Own::step; i++) sum = fusedMultiplyAdd(column.at(k + i), keys[i], sum);
  }
  return sum;
}

/**
 * Updates a column by a row; returns what the row reads of it. `known` is what the column has for the row's key, and becomes what it
 * has for `nextKey`: both sums are made side by side.
 */
template <int length>
CHAIRLIFT_DEVICE float updateDeltaColumn(Column<length>& column, int size, const RowOfHead& row, const float* nextKey,
                                         float& known) {
  using Own = Column<length>;
  const float correction = row.share * (row.value - row.kept * known);
  float read = 0, next = 0;
#pragma unroll Own::unrolled / Own::step
  for (int k = 0; k < size; k += Own::step) {
    float keys[Own::step], queries[Own::step], nextKeys[Own::step];
    Own::read(row.key + k, keys);
    Own::read(row.query + k, queries);
    Own::read(nextKey + k, nextKeys);
#pragma unroll
    for (int i = 0; i < Own::step; i++) {
      const float updated = fusedMultiplyAdd(keys[i], correction, column.at(k + i) * row.fading);
      column.at(k + i) = updated;
      read = fusedMultiplyAdd(updated, queries[i], read);
      next = fusedMultiplyAdd(updated, nextKeys[i], next);
    }
  }
  known = next;
  return read;
}

/** The same of a state space: its step is the share of a row. */
template <int length>
CHAIRLIFT_DEVICE float scanColumn(Column<length>& column, int size, const RowOfHead& row, float skip) {
  using Own = Column<length>;
  const float added = row.value * row.share;
  float sum = 0;
#pragma unroll Own::unrolled / Own::step
  for (int k = 0; k < size; k += Own::step) {
    float keys[Own::step], queries[Own::step];
    Own::read(row.key + k, keys);
    Own::read(row.query + k, queries);
#pragma unroll
    for (int i = 0; i < Own::step; i++) {
      const float next = fusedMultiplyAdd(keys[i], added, column.at(k + i) * row.fading);
      column.at(k + i) = next;
      sum = fusedMultiplyAdd(next, queries[i], sum);
    }
  }
  return fusedMultiplyAdd(row.value, skip, sum);
}

/** The inputs of a chunk of rows for one head and 32 columns, by one warp: two chunks are in shared memory. */
template <bool isFours>
class ChunkOfRows {
 public:
  CHAIRLIFT_METHOD ChunkOfRows(const RecurArgs& args, int head, int column, float* at)
      : args_(args),
        head_(head),
        keyAt_((args.strided ? head % args.keyHeads : head / (args.heads / args.keyHeads)) * args.keySize),
        valueAt_(args.valuesAt + head * args.valueSize + column),
        isColumn_(column < args.valueSize),
        at_(at) {}

  static CHAIRLIFT_METHOD int floats(int keySize) { return rowsOfChunk * (2 * keySize + 34); }

  /** Starts to read rows; `finish` ends it. */
  CHAIRLIFT_METHOD void start(int chunk, int64_t row, int rows) {
    const int lane = threadIndex(), size = args_.keySize;
    float* const keys = keysOf(chunk);
    float* const queries = keys + rowsOfChunk * size;
    constexpr int each = isFours ? 4 : 1;
    for (int i = lane * each; i < rows * size; i += 32 * each) {
      const float* const mixed = args_.mixed + (row + i / size) * args_.mixedStride + keyAt_ + i % size;
      if constexpr (isFours) {
        copyToShared(keys + i, mixed + args_.keysAt);
        copyToShared(queries + i, mixed + args_.queriesAt);
      } else {
        keys[i] = mixed[args_.keysAt];
        queries[i] = mixed[args_.queriesAt];
      }
    }
    commitCopies();
#pragma unroll
    for (int r = 0; r < rowsOfChunk; r++) {
      values_[r] = isColumn_ && r < rows ? args_.mixed[(row + r) * args_.mixedStride + valueAt_] : 0.0f;
    }
    if (lane >= rows) return;
    kept_ = args_.kept[(row + lane) * args_.stride + head_];
    share_ = args_.shares[(row + lane) * args_.stride + head_];
  }

  CHAIRLIFT_METHOD void finish(int chunk) {
    float* const at = at_ + chunk * floats(args_.keySize);
#pragma unroll
    for (int r = 0; r < rowsOfChunk; r++) at[r * 32 + threadIndex()] = values_[r];
    if (threadIndex() < rowsOfChunk) {
      at[rowsOfChunk * 32 + threadIndex()] = kept_;
      at[rowsOfChunk * 33 + threadIndex()] = share_;
    }
    waitForCopies<0>();
    syncWarp();
  }

  CHAIRLIFT_METHOD RowOfHead row(int chunk, int r) const {
    const float* const at = at_ + chunk * floats(args_.keySize);
    const float* const key = keysOf(chunk) + r * args_.keySize;
    const float kept = at[rowsOfChunk * 32 + r];
    return {key, key + rowsOfChunk * args_.keySize, at[r * 32 + threadIndex()], kept, at[rowsOfChunk * 33 + r], kept};
  }

 private:
  CHAIRLIFT_METHOD float* keysOf(int chunk) const { return at_ + chunk * floats(args_.keySize) + rowsOfChunk * 34; }

  const RecurArgs& args_;
  const int head_, keyAt_;
  const int64_t valueAt_;
  const bool isColumn_;
  float* const at_;
  float values_[rowsOfChunk];
  float kept_ = 0, share_ = 0;
};

/**
 * A warp has 32 columns of one head's matrix and takes them through all rows of a sequence. Blocks: x are sequences, y are heads
 * times pieces of columns. Shared memory: two chunks of rows, then columns whose length is not known.
 */
template <bool isDelta, int length>
CHAIRLIFT_DEVICE void recur(const RecurArgs& args) {
  startNext();
  waitForPrevious();
  const int pieces = (args.valueSize + 31) / 32, head = blockY() / pieces, lane = threadIndex();
  const int column = blockY() % pieces * 32 + lane;
  const bool isColumn = column < args.valueSize;
  const float skip = isDelta ? 0.0f : args.skip[head];
  const int64_t place = args.matrixAt + head * args.matrixStride + column;
  const int firstRun = args.states.starts[blockX()], endRun = args.states.starts[blockX() + 1];
  using Chunks = ChunkOfRows<length != 0>;
  Chunks chunks(args, head, column, (float*)sharedMemory());
  Column<length> own;
  own.place((float*)sharedMemory() + 2 * Chunks::floats(args.keySize));
  const int size = own.size(args.keySize);
  bool has = false;
  for (int index = firstRun; index < endRun; index++) {
    const RunOfRows run = args.states.runs[index];
    const auto rowsFrom = [&](int first) { return run.rows - first < rowsOfChunk ? run.rows - first : rowsOfChunk; };
    if (run.rows > 0) chunks.start(0, run.firstRow, rowsFrom(0));
    if (index == firstRun) {
      has = run.from >= 0;
      const float* const from = has ? stateOf(args.states, run.from) + place : nullptr;
#pragma unroll Column<length>::unrolled
      for (int k = 0; k < size; k++) own.at(k) = has && isColumn ? from[k * args.columnStride] : 0.0f;
    }
    float known = 0;
    for (int first = 0, chunk = 0; first < run.rows; first += rowsOfChunk, chunk ^= 1) {
      const int rows = rowsFrom(first), after = first + rows;
      if (first == 0) {
        chunks.finish(0);
        if (isDelta && has) known = readColumn(own, size, chunks.row(0, 0).key);
      }
      if (after < run.rows) chunks.start(chunk ^ 1, run.firstRow + after, rowsFrom(after));
#pragma unroll 1
      for (int r = 0; r < rows; r++) {
        // The last row of a chunk reads the next one's first key.
        if (r + 1 == rows && after < run.rows) chunks.finish(chunk ^ 1);
        RowOfHead now = chunks.row(chunk, r);
        if (!has) now.fading = 0;
        has = true;
        const float* const nextKey = r + 1 < rows ? chunks.row(chunk, r + 1).key : chunks.row(chunk ^ (after < run.rows), 0).key;
        const float output = isDelta ? updateDeltaColumn(own, size, now, nextKey, known) : scanColumn(own, size, now, skip);
        if (isColumn) args.outputs[(run.firstRow + first + r) * args.outputStride + head * args.valueSize + column] = output;
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
