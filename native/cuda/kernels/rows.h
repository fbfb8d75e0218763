// Norms and sums over rows, in the processor's order: four vectors of 16 lanes side by side, then their sum, then its lanes.
// Include after vec-lane.h.
#pragma once

#include "cuda/kernels/args.h"

namespace {

constexpr int normRms = 0, normLayer = 1;

/** The sum of each thread's share of a row, by way of `at` in shared memory; threads beyond the first 64 have none. */
CHAIRLIFT_DEVICE float sumRow(float own, float* at) {
  const int thread = threadIndex(), lane = thread % 16;
  if (thread < 16 * sumVectors) at[thread] = own;
  syncBlock();
  const float total = sumOf16((at[lane] + at[16 + lane]) + (at[32 + lane] + at[48 + lane]));
  syncBlock();
  return total;
}

/** What a norm of the kind multiplies a row by. The row is in memory that all threads of the block see; `at` has 64 floats. */
CHAIRLIFT_DEVICE Scale scaleOfRow(int kind, const float* row, int count, float epsilon, float* at) {
  constexpr int lanes = 16 * sumVectors;
  const int thread = threadIndex();
  float mean = 0;
  if (kind == normLayer) {
    float own = 0;
    if (thread < lanes) {
#pragma unroll 8
      for (int i = thread; i < count; i += lanes) own = own + row[i];
    }
    mean = divided(sumRow(own, at), float(count));
  }
  float squares = 0;
  if (thread < lanes) {
#pragma unroll 8
    for (int i = thread; i < count; i += lanes) {
      const float value = row[i] - mean;
      squares = fusedMultiplyAdd(value, value, squares);
    }
  }
  return {mean, divided(1.0f, squareRoot(divided(sumRow(squares, at), float(count)) + epsilon))};
}

CHAIRLIFT_DEVICE float normalizedValue(float x, Scale scale, float weight) { return (x - scale.mean) * scale.factor * weight; }
CHAIRLIFT_DEVICE float normalizedValue(float x, Scale scale, const float* weight, const float* bias, int i) {
  const float value = normalizedValue(x, scale, weight[i]);
  return bias ? value + bias[i] : value;
}

/** In place, in memory that all threads of the block see. */
CHAIRLIFT_DEVICE void normalizeRow(const NormArgs& norm, float* row, int count, float* at) {
  const Scale scale = scaleOfRow(norm.kind, row, count, norm.epsilon, at);
  for (int i = threadIndex(); i < count; i += threadCount()) {
    row[i] = normalizedValue(row[i], scale, norm.weight, norm.bias, i);
  }
  syncBlock();
}

CHAIRLIFT_DEVICE void measureRow(const float* row, int size, float epsilon, Scale* const* scales, int index, float* at) {
  for (int kind = 0; kind < 2; kind++) {
    if (!scales[kind]) continue;
    const Scale scale = scaleOfRow(kind, row, size, epsilon, at);
    if (threadIndex() == 0) scales[kind][index] = scale;
  }
}

CHAIRLIFT_DEVICE void measureRows(const MeasureArgs& args) {
  waitForPrevious();
  const int row = blockX();
  measureRow(args.x + int64_t(row) * args.stride, args.size, args.epsilon, args.scales, row, (float*)sharedMemory());
}

/** Rows that are wanted, normalized if asked for. */
CHAIRLIFT_DEVICE void gatherRows(const GatherRowsArgs& args) {
  waitForPrevious();
  const int from = args.rows[blockX()];
  const float* x = args.x + int64_t(from) * args.stride;
  float* const to = args.to + int64_t(blockX()) * args.toStride;
  for (int i = threadIndex(); i < args.size; i += threadCount()) {
    to[i] = args.norm.weight ? normalizedValue(x[i], args.scales[from], args.norm.weight, args.norm.bias, i) : x[i];
  }
}

/** Four columns of a row's sum over its experts. */
CHAIRLIFT_DEVICE Floats4 mixedFour(const Mixture& mixture, int row, int64_t stride, int column) {
  // Choices whose values are on their way together.
  constexpr int atOnce = 8;
  const int64_t first = int64_t(row) * mixture.used;
  Floats4 sum{0, 0, 0, 0};
  for (int begin = 0; begin < mixture.used; begin += atOnce) {
    int slots[atOnce];
    float weights[atOnce];
    Floats4 given[atOnce];
#pragma unroll
    for (int i = 0; i < atOnce; i++) {
      const bool isChoice = begin + i < mixture.used;
      slots[i] = isChoice ? mixture.slots[first + begin + i] : -1;
      weights[i] = isChoice && mixture.weights ? mixture.weights[first + begin + i] : 1.0f;
    }
#pragma unroll
    for (int i = 0; i < atOnce; i++) {
      if (slots[i] >= 0) given[i] = *(const Floats4*)(mixture.given + int64_t(slots[i]) * stride + column);
    }
#pragma unroll
    for (int i = 0; i < atOnce; i++) {
      if (slots[i] < 0) continue;
      sum = {fusedMultiplyAdd(given[i].x, weights[i], sum.x), fusedMultiplyAdd(given[i].y, weights[i], sum.y),
             fusedMultiplyAdd(given[i].z, weights[i], sum.z), fusedMultiplyAdd(given[i].w, weights[i], sum.w)};
    }
  }
  return sum;
}

CHAIRLIFT_DEVICE void scaleLogits(const ScaleLogitsArgs& args) {
  waitForPrevious();
  for (int64_t i = int64_t(blockX()) * threadCount() + threadIndex(); i < args.count;
       i += int64_t(blocksX()) * threadCount()) {
    const float scaled = args.logits[i] * args.factor;
    args.logits[i] = args.softcap > 0 ? softcap(Vec{scaled}, args.softcap).lane : scaled;
  }
}

}  // namespace
