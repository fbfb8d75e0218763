// Norms and sums over rows, in the processor's order: four vectors of 16 lanes side by side, then their sum, then its lanes.
// Include after vec-lane.h.
#pragma once

#include "cuda/kernels/args.h"

namespace {

constexpr int normRms = 0, normLayer = 1;

/** The sum of each thread's share of a row in `at` of shared memory; threads beyond the first 64 have none. */
CHAIRLIFT_DEVICE float sumRow(float own, float* at) {
  const int thread = threadIndex();
  if (thread < 16 * sumVectors) at[thread] = own;
  syncBlock();
  float total = 0;
  if (thread < 32) {
    const int lane = thread % 16;
    total = sumOf16((at[lane] + at[16 + lane]) + (at[32 + lane] + at[48 + lane]));
    if (thread == 0) at[0] = total;
  }
  syncBlock();
  total = at[0];
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
      for (int i = thread; i < count; i += lanes) own = own + row[i];
    }
    mean = divided(sumRow(own, at), float(count));
  }
  float squares = 0;
  if (thread < lanes) {
    for (int i = thread; i < count; i += lanes) {
      const float value = row[i] - mean;
      squares = fusedMultiplyAdd(value, value, squares);
    }
  }
  return {mean, divided(1.0f, squareRoot(divided(sumRow(squares, at), float(count)) + epsilon))};
}

CHAIRLIFT_DEVICE float normalizedValue(float x, Scale scale, const float* weight, const float* bias, int i) {
  const float value = (x - scale.mean) * scale.factor * weight[i];
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

/** Shared memory: the row, the stream's row, and 64 floats. */
CHAIRLIFT_DEVICE void finishPart(const FinishPartArgs& args) {
  waitForPrevious();
  const int row = blockX(), size = args.size, thread = threadIndex(), threads = threadCount();
  float* const own = (float*)sharedMemory();
  float* const at = own + size;
  const float* part = args.part + int64_t(row) * args.stride;
  for (int i = thread; i < size; i += threads) own[i] = part[i];
  syncBlock();
  if (args.partNorm.weight) normalizeRow(args.partNorm, own, size, at);
  if (args.branch) {
    const float* const branch = args.branch + int64_t(row) * args.stride;
    for (int i = thread; i < size; i += threads) own[i] = fusedMultiplyAdd(own[i], 1.0f, branch[i]);
    syncBlock();
  }
  if (!args.isLast) {
    for (int i = thread; i < size; i += threads) args.kept[int64_t(row) * args.stride + i] = own[i];
    return;
  }
  if (args.branchNorm.weight) normalizeRow(args.branchNorm, own, size, at);
  float* const stream = args.stream + int64_t(row) * args.stride;
  for (int i = thread; i < size; i += threads) {
    const float sum = fusedMultiplyAdd(own[i], args.scale, stream[i]);
    own[i] = args.streamScale == 1.0f ? sum : sum * args.streamScale;
  }
  syncBlock();
  if (args.streamNorm.weight) normalizeRow(args.streamNorm, own, size, at);
  for (int i = thread; i < size; i += threads) stream[i] = own[i];
  measureRow(own, size, args.epsilon, args.scales, row, at);
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

CHAIRLIFT_DEVICE void scaleLogits(const ScaleLogitsArgs& args) {
  waitForPrevious();
  for (int64_t i = int64_t(blockX()) * threadCount() + threadIndex(); i < args.count;
       i += int64_t(blocksX()) * threadCount()) {
    const float scaled = args.logits[i] * args.factor;
    args.logits[i] = args.softcap > 0 ? softcap(Vec{scaled}, args.softcap).lane : scaled;
  }
}

}  // namespace
