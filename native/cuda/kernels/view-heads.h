// Attention between the rows of a view: queries, keys and values in the order of their groups, in float32. The kernels are those of
// paged attention with many rows. Include after attention-few.h and before attention-many.h.
#pragma once

#include "cuda/kernels/vision-args.h"

namespace {

constexpr int kvFloat = 2;

template <>
CHAIRLIFT_METHOD float kvOf<kvFloat>(uint32_t word, int) {
  return asFloat(word);
}

template <>
struct HeadLayout<kvFloat> {
  static constexpr int element = 4;
  int size, valueSize, padded;

  CHAIRLIFT_METHOD HeadLayout(const AttentionArgs& args)
      : size(args.headSize), valueSize(args.headSize), padded(roundUpTo16(args.headSize)) {}

  CHAIRLIFT_METHOD int valuesAt() const { return size * tokensOfBlock * element; }
  // None has scales.
  CHAIRLIFT_METHOD const float* valueScales(const uint8_t*) const { return nullptr; }
  CHAIRLIFT_METHOD const float* keyScales(const uint8_t*) const { return nullptr; }
};

/** Normalizes a row of heads in shared memory; `at` has 64 floats. */
CHAIRLIFT_DEVICE void normalizeHeads(const NormArgs& norm, int normSize, int width, float* heads, float* at) {
  if (!norm.weight) return;
  if (normSize == width) return normalizeRow(norm, heads, width, at);
  const int warps = threadCount() / 32;
  for (int first = threadIndex() / 32 * normSize; first < width; first += warps * normSize) {
    normalizeHead(norm, nullptr, 0, heads + first, normSize, 0);
  }
  syncBlock();
}

CHAIRLIFT_DEVICE void turnHeads(const PlaceViewArgs& args, const float* turns, float* heads) {
  for (int i = threadIndex(); i < args.headCount * args.pairCount; i += threadCount()) {
    const int pair = i % args.pairCount;
    float* const own = heads + i / args.pairCount * args.headSize;
    const int first = args.pairs[2 * pair], second = args.pairs[2 * pair + 1];
    const float a = own[first], b = own[second], cosine = turns[pair], sine = turns[args.pairCount + pair];
    own[first] = a * cosine - b * sine;
    own[second] = b * cosine + a * sine;
  }
  syncBlock();
}

/** Queries (0), keys (1) or values (2) of a row. */
CHAIRLIFT_DEVICE void storeHeads(const PlaceViewArgs& args, int part, const float* heads) {
  const int width = args.headCount * args.headSize, size = args.headSize, padded = roundUpTo16(size);
  const int token = args.tokens[blockX()] % tokensOfBlock;
  const int64_t block = args.tokens[blockX()] / tokensOfBlock, headFloats = int64_t(size + padded) * tokensOfBlock;
  float* const queries = args.queries + int64_t(args.places[blockX()]) * args.queryStride;
  for (int i = threadIndex(); i < width; i += threadCount()) {
    float* const own = args.kv + block * args.blockFloats + i / size * headFloats;
    if (part == 0) queries[i] = heads[i];
    else if (part == 1) own[i % size * tokensOfBlock + token] = heads[i];
    else own[size * tokensOfBlock + token * padded + i % size] = heads[i];
  }
}

/** A block has one row. Shared memory: all heads of it, and 64 floats. */
CHAIRLIFT_DEVICE void placeView(const PlaceViewArgs& args) {
  waitForPrevious();
  startNext();
  const int width = args.headCount * args.headSize;
  float* const heads = (float*)sharedMemory();
  for (int part = 0; part < 3; part++) {
    const float* const from = args.projected + int64_t(blockX()) * args.projectedStride + args.at[part];
    for (int i = threadIndex(); i < width; i += threadCount()) heads[i] = from[i];
    syncBlock();
    normalizeHeads(args.norms[part], args.normSizes[part], width, heads, heads + width);
    if (part < 2 && args.rotations) turnHeads(args, args.rotations + int64_t(blockX()) * 2 * args.pairCount, heads);
    storeHeads(args, part, heads);
    syncBlock();
  }
}

}  // namespace
