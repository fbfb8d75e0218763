// The residual stream beyond branches: LAuReL, AltUp's streams, per-layer embeddings, and what is added to embeddings before the
// first layer. Include after rows.h and embedding.h.
#pragma once

#include "cuda/kernels/layer-args.h"

namespace {

/** A block has one row. Shared memory: the row and 64 floats. */
CHAIRLIFT_DEVICE void finishLaurel(const FinishLaurelArgs& args) {
  startNext();
  waitForPrevious();
  const int64_t row = blockX();
  float* const own = (float*)sharedMemory();
  float* const out = args.out + row * args.outStride;
  const float* const x = args.x + row * args.stride;
  for (int i = threadIndex(); i < args.size; i += threadCount()) own[i] = out[i];
  syncBlock();
  normalizeRow(args.norm, own, args.size, own + args.size);
  for (int i = threadIndex(); i < args.size; i += threadCount()) {
    const float seen = args.inputNorm.weight
                           ? normalizedValue(x[i], args.scales[row], args.inputNorm.weight, args.inputNorm.bias, i)
                           : x[i];
    out[i] = own[i] + seen;
  }
}

// The root of 1e-5, the least root mean square of a row that is scaled.
constexpr float leastRoot = 3.16227766e-3f;

CHAIRLIFT_DEVICE float rootOfRow(const float* row, int size, float* at) {
  return divided(1.0f, scaleOfRow(normRms, row, size, 0.0f, at).factor);
}

/** A block has one row. Shared memory: 64 floats. */
CHAIRLIFT_DEVICE void scaleLike(const ScaleLikeArgs& args) {
  startNext();
  waitForPrevious();
  const int64_t at = int64_t(blockX()) * args.stride;
  float* const shared = (float*)sharedMemory();
  const float wanted = rootOfRow(args.like + at, args.size, shared), root = rootOfRow(args.values + at, args.size, shared);
  const float factor = divided(wanted, root < leastRoot ? leastRoot : root);
  for (int i = threadIndex(); i < args.size; i += threadCount()) {
    const float value = args.values[at + i] * factor;
    if (args.sum) args.sum[at + i] = args.sum[at + i] + value;
    else args.values[at + i] = value;
  }
}

CHAIRLIFT_DEVICE float* streamRow(const AltUpArgs& args, int stream, int64_t row) {
  return (stream == 0 ? args.first : args.others + (stream - 1) * args.streamStride) + row * args.stride;
}
CHAIRLIFT_DEVICE float* predictedRow(const AltUpArgs& args, int stream, int64_t row) {
  return args.predicted + stream * args.streamStride + row * args.stride;
}

/** A block has one row. Shared memory: 64 floats. */
CHAIRLIFT_DEVICE void predictStreams(const AltUpArgs& args) {
  startNext();
  waitForPrevious();
  const int row = blockX();
  const float* const own = args.coefficients + int64_t(row) * args.coefficientStride;
  for (int k = threadIndex(); k < args.size; k += threadCount()) {
    for (int i = 0; i < args.count; i++) {
      float prediction = streamRow(args, i, row)[k];
      for (int j = 0; j < args.count; j++) {
        prediction = fusedMultiplyAdd(streamRow(args, j, row)[k], own[i * args.count + j], prediction);
      }
      predictedRow(args, i, row)[k] = prediction;
    }
    args.first[int64_t(row) * args.stride + k] = predictedRow(args, 0, row)[k];
  }
  syncBlock();
  measureRow(args.first + int64_t(row) * args.stride, args.size, args.epsilon, args.scales, row, (float*)sharedMemory());
}

/** The same. */
CHAIRLIFT_DEVICE void correctStreams(const AltUpArgs& args) {
  startNext();
  waitForPrevious();
  const int row = blockX();
  const float* const own = args.coefficients + int64_t(row) * args.coefficientStride;
  for (int k = threadIndex(); k < args.size; k += threadCount()) {
    const float change = streamRow(args, 0, row)[k] - predictedRow(args, 0, row)[k];
    for (int i = 0; i < args.count; i++) {
      streamRow(args, i, row)[k] = fusedMultiplyAdd(change, 1.0f + own[i], predictedRow(args, i, row)[k]);
    }
  }
  syncBlock();
  measureRow(args.first + int64_t(row) * args.stride, args.size, args.epsilon, args.scales, row, (float*)sharedMemory());
}

/** The same. */
CHAIRLIFT_DEVICE void copyStream(const CopyStreamArgs& args) {
  startNext();
  waitForPrevious();
  const int row = blockX();
  const float* const from = args.from + int64_t(row) * args.stride;
  float* const to = args.to + int64_t(row) * args.stride;
  for (int i = threadIndex(); i < args.size; i += threadCount()) to[i] = args.factors ? from[i] * args.factors[i] : from[i];
  syncBlock();
  measureRow(to, args.size, args.epsilon, args.scales, row, (float*)sharedMemory());
}

/** Shared memory: a row and 64 floats. */
CHAIRLIFT_DEVICE void addToStreams(const AddToStreamsArgs& args) {
  startNext();
  waitForPrevious();
  const int row = blockX(), size = args.streams.size;
  float* const own = (float*)sharedMemory();
  for (int i = threadIndex(); i < size; i += threadCount()) own[i] = args.added[int64_t(row) * args.streams.stride + i];
  syncBlock();
  if (args.norm.weight) normalizeRow(args.norm, own, size, own + size);
  for (int stream = 1; stream < args.streams.count; stream++) {
    float* const to = streamRow(args.streams, stream, row);
    for (int i = threadIndex(); i < size; i += threadCount()) to[i] = to[i] + own[i];
  }
  measureRow(streamRow(args.streams, 0, row), size, args.streams.epsilon, args.streams.scales, row, own + size);
}

/** The first becomes the mean of all, whose sum is the first prediction. Shared memory: 64 floats. */
CHAIRLIFT_DEVICE void averageStreams(const AltUpArgs& args) {
  startNext();
  waitForPrevious();
  const int row = blockX();
  float* const first = streamRow(args, 0, row);
  const float* const sum = predictedRow(args, 0, row);
  for (int i = threadIndex(); i < args.size; i += threadCount()) first[i] = divided(sum[i], float(args.count));
  syncBlock();
  measureRow(first, args.size, args.epsilon, args.scales, row, (float*)sharedMemory());
}

CHAIRLIFT_DEVICE void capRows(const CapRowsArgs& args) {
  startNext();
  waitForPrevious();
  float* const row = args.rows + int64_t(blockX()) * args.stride;
  for (int i = threadIndex(); i < args.size; i += threadCount()) row[i] = softcap(Vec{row[i]}, args.cap).lane;
}

/** Blocks: x are rows, y are layers. Shared memory: a layer's values and 64 floats. */
CHAIRLIFT_DEVICE void finishPerLayerInputs(const FinishPerLayerInputsArgs& args) {
  startNext();
  waitForPrevious();
  const int token = args.tokens[blockX()], output = token < args.table.outputs ? token : 0, first = blockY() * args.size;
  float* const row = args.projected + int64_t(blockX()) * args.stride + first;
  float* const own = (float*)sharedMemory();
  for (int i = threadIndex(); i < args.size; i += threadCount()) own[i] = row[i] * args.scale;
  syncBlock();
  normalizeRow(args.norm, own, args.size, own + args.size);
  for (int i = threadIndex(); i < args.size; i += threadCount()) {
    row[i] = fusedMultiplyAdd(readWeight(args.table, output, first + i), args.tableScale, own[i]);
  }
}

/** A block has one row. Shared memory: the row and 64 floats. */
CHAIRLIFT_DEVICE void finishEmbedding(const FinishEmbeddingArgs& args) {
  startNext();
  waitForPrevious();
  float* const x = args.x + int64_t(blockX()) * args.stride;
  float* const own = (float*)sharedMemory();
  for (int i = threadIndex(); i < args.size; i += threadCount()) {
    float value = args.scale == 1.0f ? x[i] : x[i] * args.scale;
    if (args.textKind) value = value + args.textKind[i];
    if (args.positions) value = value + readWeight(args.table, args.positions[blockX()], i);
    own[i] = value;
  }
  syncBlock();
  if (args.norm.weight) normalizeRow(args.norm, own, args.size, own + args.size);
  for (int i = threadIndex(); i < args.size; i += threadCount()) x[i] = own[i];
}

}  // namespace
