// Recurrent layers: convolutions, gated delta nets and state spaces. Tokens are taken one after the other, so that chunks cannot
// change a result.
// Include after the ISA's vec-*.h and vec-math.h, and rows.h.
#pragma once

#include "kernels/kernels.h"
#include "kernels/repeat.h"

namespace {

using namespace chairlift;

void convolve(const ConvolutionTask& task) {
  const int before = task.taps - 1;
  for (int row = 0; row < task.rows; row++) {
    for (int c = task.begin; c < task.end; c += 16) {
      Vec sum = task.bias ? Vec::load(task.bias + c) : Vec::zero();
      for (int tap = 0; tap < task.taps; tap++) {
        const int from = row - before + tap;
        const float* x = from >= 0 ? task.x + size_t(from) * task.stride
                         : task.waiting ? task.waiting + size_t(before + from) * task.waitingStride
                                        : nullptr;
        if (x) sum = fma(Vec::load(task.weights + size_t(tap) * task.weightStride + c), Vec::load(x + c), sum);
      }
      (task.activates ? silu(sum) : sum).store(task.to + size_t(row) * task.toStride + c);
    }
  }
}

/** Takes 16 * slices columns of one head's matrix through all rows while they are cached. */
template <int slices>
inline void updateDeltaColumns(const DeltaTask& task, int column) {
  const float* from = task.from ? task.from + column : nullptr;
  float* const state = task.state + column;
  for (int row = 0; row < task.rows; row++) {
    const float* key = task.keys + size_t(row) * task.stride;
    const float* query = task.queries + size_t(row) * task.stride;
    const Vec kept = Vec::set(task.kept[size_t(row) * task.headStride]);
    Vec correction[slices], read[slices];
    repeat<slices>([&](int i) CHAIRLIFT_LAMBDA { correction[i] = read[i] = Vec::zero(); });
    if (from) {
      for (int k = 0; k < task.keySize; k++) {
        const Vec weight = Vec::set(key[k]);
        repeat<slices>([&](int i) CHAIRLIFT_LAMBDA {
          correction[i] = fma(Vec::load(from + size_t(k) * task.stateStride + i * 16), weight, correction[i]);
        });
      }
    }
    const Vec share = Vec::set(task.shares[size_t(row) * task.headStride]);
    const float* value = task.values + size_t(row) * task.stride + column;
    repeat<slices>([&](int i) CHAIRLIFT_LAMBDA {
      correction[i] = share * (loadFirst(value + i * 16, task.valueSize - column - i * 16) - kept * correction[i]);
    });
    for (int k = 0; k < task.keySize; k++) {
      const Vec weight = Vec::set(key[k]), ask = Vec::set(query[k]);
      repeat<slices>([&](int i) CHAIRLIFT_LAMBDA {
        const size_t at = size_t(k) * task.stateStride + i * 16;
        const Vec faded = from ? Vec::load(from + at) * kept : Vec::zero();
        const Vec updated = fma(weight, correction[i], faded);
        updated.store(state + at);
        read[i] = fma(updated, ask, read[i]);
      });
    }
    float* to = task.outputs + size_t(row) * task.outputStride + column;
    repeat<slices>([&](int i) CHAIRLIFT_LAMBDA { storeFirst(read[i], to + i * 16, task.valueSize - column - i * 16); });
    from = state;
  }
}

void updateDelta(const DeltaTask& task) {
  int column = task.begin;
  for (; column + 64 <= task.end; column += 64) updateDeltaColumns<4>(task, column);
  for (; column < task.end; column += 16) updateDeltaColumns<1>(task, column);
}

/** The same for a state space. */
template <int slices>
inline void scanColumns(const ScanTask& task, int column) {
  const float* from = task.from ? task.from + column : nullptr;
  float* const state = task.state + column;
  for (int row = 0; row < task.rows; row++) {
    const float* write = task.writes + size_t(row) * task.stride;
    const float* read = task.reads + size_t(row) * task.stride;
    const float* value = task.values + size_t(row) * task.stride + column;
    const Vec kept = Vec::set(task.kept[size_t(row) * task.headStride]);
    const Vec step = Vec::set(task.steps[size_t(row) * task.headStride]);
    Vec values[slices], added[slices], sums[slices];
    repeat<slices>([&](int i) CHAIRLIFT_LAMBDA {
      values[i] = loadFirst(value + i * 16, task.headSize - column - i * 16);
      added[i] = values[i] * step;
      sums[i] = Vec::zero();
    });
    for (int n = 0; n < task.stateSize; n++) {
      const Vec weight = Vec::set(write[n]), ask = Vec::set(read[n]);
      repeat<slices>([&](int i) CHAIRLIFT_LAMBDA {
        const size_t at = size_t(n) * task.stateStride + i * 16;
        const Vec faded = from ? Vec::load(from + at) * kept : Vec::zero();
        const Vec next = fma(weight, added[i], faded);
        next.store(state + at);
        sums[i] = fma(next, ask, sums[i]);
      });
    }
    float* to = task.outputs + size_t(row) * task.outputStride + column;
    repeat<slices>([&](int i) CHAIRLIFT_LAMBDA {
      storeFirst(fma(values[i], Vec::set(task.skip), sums[i]), to + i * 16, task.headSize - column - i * 16);
    });
    from = state;
  }
}

void scan(const ScanTask& task) {
  int column = task.begin;
  for (; column + 64 <= task.end; column += 64) scanColumns<4>(task, column);
  for (; column < task.end; column += 16) scanColumns<1>(task, column);
}

void stepsAndDecays(const float* x, const float* bias, const float* rates, float* steps, float* kept, int count) {
  for (int i = 0; i < count; i += 16) {
    const int left = count - i;
    const Vec step = softplus(loadFirst(x + i, left) + loadFirst(bias + i, left));
    if (steps) storeFirst(step, steps + i, left);
    storeFirst(exponential(loadFirst(rates + i, left) * step), kept + i, left);
  }
}

void sigmoids(const float* x, float* to, int count) {
  for (int i = 0; i < count; i += 16) storeFirst(sigmoid(loadFirst(x + i, count - i)), to + i, count - i);
}

void toLength(float* x, int count, float length) {
  Vec squares = Vec::zero();
  for (int i = 0; i < count; i += 16) {
    const Vec v = loadFirst(x + i, count - i);
    squares = fma(v, v, squares);
  }
  const Vec factor = Vec::set(length / __builtin_sqrtf(sum(squares) + 1e-6f));
  for (int i = 0; i < count; i += 16) storeFirst(loadFirst(x + i, count - i) * factor, x + i, count - i);
}

void multiplyRow(const float* x, const float* by, bool activates, float* to, int count) {
  for (int i = 0; i < count; i += 16) {
    const Vec factor = loadFirst(by + i, count - i);
    storeFirst(loadFirst(x + i, count - i) * (activates ? silu(factor) : factor), to + i, count - i);
  }
}

}  // namespace
