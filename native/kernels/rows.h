// Kernels over single rows of activations: norm, quantization, gating, rotation.
// Include after the ISA's vec-*.h and vec-math.h.
#pragma once

#include "kernels/kernels.h"

namespace {

using namespace chairlift;

inline int paddedCount(int count) { return (count + 15) & ~15; }

float rmsFactor(const float* x, int count, float epsilon) {
  Vec squares = Vec::zero();
  for (int i = 0; i < paddedCount(count); i += 16) {
    const Vec v = Vec::load(x + i);
    squares = fma(v, v, squares);
  }
  return 1.0f / __builtin_sqrtf(sum(squares) / float(count) + epsilon);
}

void scaleRow(const float* x, const float* weight, float factor, float* to, int count) {
  const Vec factors = Vec::set(factor);
  for (int i = 0; i < paddedCount(count); i += 16) {
    (Vec::load(x + i) * factors * Vec::load(weight + i)).store(to + i);
  }
}

/** Codes, scale and sums of one group of one row. */
inline void quantizeGroup(Vec low, Vec high, int8_t* to, GroupSide& side, int row) {
  const float scale = largestMagnitude(low, high) / 127.0f;
  const Vec inverse = Vec::set(scale > 1e-30f ? 1.0f / scale : 0.0f);
  (low * inverse).storeI8(to);
  (high * inverse).storeI8(to + 16);
  const int32_t sums[2] = {Vec::sumI8(to), Vec::sumI8(to + 16)};
  // Infinity becomes NaN, which no sum of whatever codes it left can hide.
  side.scale[row] = scale + (scale - scale);
  side.offset[0][row] = -128 * (sums[0] + sums[1]);
  side.sum[0][row] = side.scale[row] * float(sums[0] + sums[1]);
  for (int half = 0; half < 2; half++) {
    side.offset[1 + half][row] = -128 * sums[half];
    side.sum[1 + half][row] = side.scale[row] * float(sums[half]);
  }
}

/** Where the codes of one group of one row go. */
inline int8_t* placeCodes(const InputTask& task, int row, int group) {
  int8_t* groupStart = task.codes + size_t(group) * groupCodes;
  if (!task.paired) return groupStart + row * groupInputs;
  int8_t* line = groupStart + row * 2 * groupInputs;
  memset(line, 0, 2 * groupInputs);
  return line + group % 2 * groupInputs;
}

inline Vec inputAt(const InputTask& task, int row, int i) {
  const float* from = task.x + size_t(row) * task.stride + i;
  const Vec x = Vec::load(from);
  if (task.weight) return x * Vec::set(task.factors[row]) * Vec::load(task.weight + i);
  if (!task.up) return x;
  const Vec active = task.activation == Activation::Silu ? silu(x) : geluTanh(x);
  return active * Vec::load(task.up + size_t(row) * task.stride + i);
}

void makeInput(const InputTask& task) {
  for (int row = 0; row < task.rows; row++) {
    for (int group = task.firstGroup; group < task.endGroup; group++) {
      const int i = group * groupInputs;
      const Vec low = inputAt(task, row, i), high = inputAt(task, row, i + 16);
      if (task.values) {
        low.store(task.values + size_t(row) * task.valueStride + i);
        high.store(task.values + size_t(row) * task.valueStride + i + 16);
      }
      if (task.codes) quantizeGroup(low, high, placeCodes(task, row, group), task.sides[group], row);
    }
  }
}

void rotate(float* head, const float* cosines, const float* sines, int half) {
  for (int i = 0; i < half; i++) {
    const float a = head[i], b = head[i + half];
    head[i] = a * cosines[i] - b * sines[i];
    head[i + half] = b * cosines[i] + a * sines[i];
  }
}

void addTo(float* x, const float* delta, int count) {
  for (int i = 0; i < paddedCount(count); i += 16) (Vec::load(x + i) + Vec::load(delta + i)).store(x + i);
}

void softcapInPlace(float* x, int count, float cap) {
  int i = 0;
  for (; i + 16 <= count; i += 16) softcap(Vec::load(x + i), cap).store(x + i);
  if (i == count) return;
  float tail[16] = {};
  memcpy(tail, x + i, size_t(count - i) * sizeof(float));
  softcap(Vec::load(tail), cap).store(tail);
  memcpy(x + i, tail, size_t(count - i) * sizeof(float));
}

}  // namespace
