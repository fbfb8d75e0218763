// Rows of a view in a vision tower: patches, positions, what is gathered, and what branches add. Include after embedding.h.
#pragma once

#include "cuda/kernels/vision-args.h"

namespace {

/** A block has one row. */
CHAIRLIFT_DEVICE void readPatches(const ReadPatchesArgs& args) {
  waitForPrevious();
  startNext();
  const int row = args.firstRow + blockX(), size = args.size, area = size * size;
  const int top = row / args.columns * size, left = row % args.columns * size;
  float* const to = args.to + int64_t(blockX()) * args.stride;
  // From one channel, frame and pixel to the next.
  const int byChannel = args.channelsFirst ? args.frames * area : 1;
  const int byFrame = args.channelsFirst ? area : 3 * area, byPixel = args.channelsFirst ? 1 : 3;
  for (int i = threadIndex(); i < 3 * area; i += threadCount()) {
    const int pixel = i / 3, channel = i % 3;
    const int64_t at = int64_t(top + pixel / size) * args.width + left + pixel % size;
    const float value = args.values[channel * 256 + args.rgb[3 * at + channel]];
    for (int frame = 0; frame < args.frames; frame++) to[channel * byChannel + frame * byFrame + pixel * byPixel] = value;
  }
}

/** Blocks: x are rows, y are pieces of them. */
CHAIRLIFT_DEVICE void addTaps(const AddTapsArgs& args) {
  waitForPrevious();
  startNext();
  const int i = blockY() * threadCount() + threadIndex(), row = args.firstRow + blockX();
  if (i >= args.size) return;
  float sum = 0;
  for (int tap = args.starts[row]; tap < args.starts[row + 1]; tap++) {
    sum = fusedMultiplyAdd(readWeight(args.table, args.rows[tap], i), args.weights[tap], sum);
  }
  float* const x = args.x + int64_t(blockX()) * args.stride + i;
  *x = *x + sum;
}

/** A block has one row. */
CHAIRLIFT_DEVICE void gatherCellsOf(const GatherCellsArgs& args) {
  waitForPrevious();
  startNext();
  const int32_t* const sources = args.sources + int64_t(blockX()) * args.members;
  float* const to = args.to + int64_t(blockX()) * args.toStride;
  const auto source = [&](int member) {
    return sources[member] < 0 ? args.token : args.from + int64_t(sources[member]) * args.fromStride;
  };
  const int count = args.by == gatherMean ? args.size : args.size * args.members;
  for (int i = threadIndex(); i < count; i += threadCount()) {
    if (args.by == gatherCells) {
      to[i] = source(i / args.size)[i % args.size];
    } else if (args.by == gatherChannels) {
      to[i] = source(i % args.members)[i / args.members];
    } else {
      float sum = 0;
      for (int member = 0; member < args.members; member++) sum = sum + source(member)[i];
      to[i] = divided(sum, float(args.members));
    }
  }
}

CHAIRLIFT_DEVICE float changed(const ChangeRowsArgs& args, float x, int i) {
  switch (args.kind) {
    case changeAffine: return x * args.first + args.second;
    case changeStandardize: return (x - args.shifts[i]) * args.scales[i];
    // NaN stays NaN.
    case changeHold: return x < args.first ? args.first : x > args.second ? args.second : x;
    default: return (Vec{x} * sigmoid(Vec{x} * Vec::set(1.702f))).lane;
  }
}

/** Blocks: x are rows, y are pieces of them. */
CHAIRLIFT_DEVICE void changeRows(const ChangeRowsArgs& args) {
  waitForPrevious();
  startNext();
  const int i = blockY() * threadCount() + threadIndex();
  if (i >= args.size) return;
  float* const x = args.x + int64_t(blockX()) * args.stride + i;
  const float value = changed(args, *x, i);
  *x = args.up ? value * args.up[int64_t(blockX()) * args.upStride + i] : value;
}

/** A block has one row. Shared memory: the row and 64 floats. */
CHAIRLIFT_DEVICE void addBranchRow(const AddBranchArgs& args) {
  waitForPrevious();
  startNext();
  float* const own = (float*)sharedMemory();
  const float* const added = args.added + int64_t(blockX()) * args.addedStride;
  const int64_t row = args.order ? args.order[blockX()] : blockX();
  float* const x = args.stream + row * args.stride;
  if (args.norm.weight) {
    for (int i = threadIndex(); i < args.size; i += threadCount()) own[i] = added[i];
    syncBlock();
    normalizeRow(args.norm, own, args.size, own + args.size);
  }
  for (int i = threadIndex(); i < args.size; i += threadCount()) {
    const float value = args.norm.weight ? own[i] : added[i];
    x[i] = x[i] + (args.scales ? value * args.scales[i] : value);
  }
}

}  // namespace
