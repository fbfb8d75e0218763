// What adapters add to linear maps: rows of a tile that use an adapter are gathered at its start.
#pragma once

#include "cuda/kernels/layer-args.h"

namespace {

/** A thread has a tile. */
CHAIRLIFT_DEVICE void adapterTiles(const AdapterTilesArgs& args) {
  startNext();
  waitForPrevious();
  const int tile = blockX() * threadCount() + threadIndex();
  const int count = args.tiles ? *args.tileCount : (args.rows + rowsOfTile - 1) / rowsOfTile;
  if (tile >= count) return;
  const int left = args.rows - tile * rowsOfTile;
  const Tile own = args.tiles ? args.tiles[tile] : Tile{0, tile * rowsOfTile, left < rowsOfTile ? left : rowsOfTile};
  Tile to{own.member - args.firstMember, own.firstRow, 0};
  if (to.member >= 0 && to.member < args.members) {
    for (int row = own.firstRow; row < own.firstRow + own.rows; row++) {
      if (args.adapters[args.owners ? args.owners[row] : row] == args.adapter) args.places[to.firstRow + to.rows++] = row;
    }
  } else {
    to.member = 0;
  }
  args.to[tile] = to;
}

/** Blocks: x are pieces of outputs, y are tiles. */
CHAIRLIFT_DEVICE void addAdapted(const AddAdaptedArgs& args) {
  startNext();
  waitForPrevious();
  if (args.tileCount && blockY() >= *args.tileCount) return;
  const Tile own = args.tiles[blockY()];
  const int output = blockX() * threadCount() + threadIndex();
  if (output >= args.outputs) return;
  const int64_t at = int64_t(own.member) * args.outputs + output;
  for (int row = own.firstRow; row < own.firstRow + own.rows; row++) {
    float* const to = args.out + args.places[row] * args.outStride + output;
    const float sum = fusedMultiplyAdd(args.added[row * args.addedStride + output], args.scale, *to);
    *to = args.factors ? sum * args.factors[at] + args.shifts[at] : sum;
  }
}

}  // namespace
