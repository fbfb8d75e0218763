// Rows of images in the text model: their embeddings, what a tower adds after layers, and turns by three positions. Include after
// heads.h.
#pragma once

#include "cuda/kernels/vision-args.h"

namespace {

/** A block has one row of an image. */
CHAIRLIFT_DEVICE void setImageRows(const SetImageRowsArgs& args) {
  waitForPrevious();
  startNext();
  const float* const values = args.values + int64_t(blockX()) * args.size;
  float* const x = args.x + int64_t(args.rows[blockX()]) * args.stride;
  for (int i = threadIndex(); i < args.size; i += threadCount()) x[i] = args.adds ? x[i] + values[i] : values[i];
}

/** A block has one row. */
CHAIRLIFT_DEVICE void turnRows(const TurnRowsArgs& args) {
  waitForPrevious();
  startNext();
  const int32_t* const positions = args.positions + 3 * blockX();
  float* const to = args.to + int64_t(blockX()) * 2 * args.pairs;
  for (int pair = threadIndex(); pair < args.pairs; pair += threadCount()) {
    const int position = positions[args.axes ? args.axes[pair] : 0];
    const float* const from = args.table + int64_t(position) * 2 * args.pairs;
    to[pair] = from[pair];
    to[args.pairs + pair] = from[args.pairs + pair];
  }
}

/** As placeHeads, which looks turns up by position. */
CHAIRLIFT_DEVICE void placeTurnedHeads(const PlaceTurnedArgs& args) {
  PlaceHeadsArgs heads = args.heads;
  if (heads.rotations) heads.rotations = args.turns + int64_t(blockX() - heads.positions[blockX()]) * 2 * heads.pairs;
  placeHeads(heads);
}

}  // namespace
