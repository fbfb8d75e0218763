// Experts: the order of rows by expert, and the sum of what experts give. See layers/moe.cc. Include after router.h.
#pragma once

namespace {

/** How many lanes of the warp before this one have the same expert, of `experts`, or `noExpert` too. */
CHAIRLIFT_DEVICE int equalBefore(int expert, int experts) {
  uint32_t equal = (1u << threadIndex() % 32) - 1;
  for (int bit = 1; bit <= experts; bit *= 2) {
    const uint32_t votes = chairlift::cuda::ballot((expert & bit) != 0);
    equal &= (expert & bit) != 0 ? votes : ~votes;
  }
  return countBits(equal);
}

/** The sum of this lane's value and those of all lanes before it. */
CHAIRLIFT_DEVICE int sumUpTo(int value) {
  const int lane = threadIndex() % 32;
  for (int step = 1; step < 32; step *= 2) {
    const int other = shuffle(value, lane - step);
    if (lane >= step) value += other;
  }
  return value;
}

/**
 * A counting sort by one block; each warp has a run of choices, so that those of one expert stay in order. Shared memory: for each
 * warp a count by expert, then the first place and the first tile of each expert, and one more.
 */
CHAIRLIFT_DEVICE void sortChoices(const SortChoicesArgs& args) {
  startNext();
  waitForPrevious();
  const int thread = threadIndex(), threads = threadCount(), warp = thread / 32, warps = threads / 32, lane = thread % 32;
  const int experts = args.experts, count = args.rows * args.used;
  int* const counts = (int*)sharedMemory();
  int* const firstPlaces = counts + warps * experts;
  int* const firstTiles = firstPlaces + experts + 1;
  const int perWarp = (count + warps * 32 - 1) / (warps * 32) * 32;
  const auto expertOf = [&](int i) {
    return i < count && args.blocks[args.firstRow + i / args.used] >= 0 ? args.chosen[i] : noExpert;
  };
  for (int i = thread; i < warps * experts; i += threads) counts[i] = 0;
  syncBlock();
  for (int at = 0; at < perWarp; at += 32) {
    const int expert = expertOf(warp * perWarp + at + lane);
    if (expert != noExpert) atomicIncrease(&counts[warp * experts + expert], 1);
  }
  syncBlock();
  // Counts become those of the warps before.
  for (int expert = thread; expert < experts; expert += threads) {
    int before = 0;
    for (int i = 0; i < warps; i++) {
      const int own = counts[i * experts + expert];
      counts[i * experts + expert] = before;
      before += own;
    }
    firstPlaces[expert] = before;
  }
  syncBlock();
  if (warp == 0) {
    int places = 0, tiles = 0;
    for (int at = 0; at < experts; at += 32) {
      const int expert = at + lane, own = expert < experts ? firstPlaces[expert] : 0;
      const int ownTiles = (own + rowsOfTile - 1) / rowsOfTile;
      const int placesUpTo = sumUpTo(own), tilesUpTo = sumUpTo(ownTiles);
      if (expert < experts) {
        firstPlaces[expert] = places + placesUpTo - own;
        firstTiles[expert] = tiles + tilesUpTo - ownTiles;
      }
      places += shuffle(placesUpTo, 31);
      tiles += shuffle(tilesUpTo, 31);
    }
    if (lane == 0) {
      firstPlaces[experts] = places;
      *args.tileCount = tiles;
    }
  }
  syncBlock();
  for (int expert = thread; expert < experts; expert += threads) {
    const int end = firstPlaces[expert + 1];
    int tile = firstTiles[expert];
    for (int at = firstPlaces[expert]; at < end; at += rowsOfTile) {
      args.tiles[tile++] = {expert, at, end - at < rowsOfTile ? end - at : rowsOfTile};
    }
  }
  for (int at = 0; at < perWarp; at += 32) {
    const int i = warp * perWarp + at + lane, expert = expertOf(i);
    const int before = equalBefore(expert, experts);
    int* const next = expert == noExpert ? nullptr : &counts[warp * experts + expert];
    const int place = next ? firstPlaces[expert] + *next + before : -1;
    syncWarp();
    if (next) atomicIncrease(next, 1);
    syncWarp();
    if (i >= count) continue;
    args.slots[i] = place;
    if (place < 0) continue;
    args.places[place] = args.firstRow + i / args.used;
    args.factors[place] = args.weights[i];
  }
}

/** Blocks: x are rows, y are pieces of columns, of which a thread has four. Rows are padded to whole fours. */
CHAIRLIFT_DEVICE void mixExperts(const MixExpertsArgs& args) {
  startNext();
  waitForPrevious();
  const int column = (blockY() * threadCount() + threadIndex()) * 4;
  if (column >= args.size) return;
  *(Floats4*)(args.out + int64_t(blockX()) * args.stride + column) = mixedFour(args.mixture, blockX(), args.stride, column);
}

/** A block has one row. Shared memory: 64 floats. */
CHAIRLIFT_DEVICE void cutGates(const CutGatesArgs& args) {
  startNext();
  waitForPrevious();
  float* const gates = args.gates + int64_t(blockX()) * args.stride;
  const Scale scale = scaleOfRow(normLayer, gates, args.size, 0.0f, (float*)sharedMemory());
  const float limit = scale.mean + divided(args.cutoff, scale.factor);
  // NaN stays NaN.
  for (int i = threadIndex(); i < args.size; i += threadCount()) gates[i] = gates[i] < limit ? 0.0f : gates[i] - limit;
}

CHAIRLIFT_DEVICE void shareRows(const ShareRowsArgs& args) {
  startNext();
  waitForPrevious();
  const float share = float(chairlift::sigmoid(double(args.shares[int64_t(blockX()) * args.shareStride])));
  float* const row = args.rows + int64_t(blockX()) * args.stride;
  for (int i = threadIndex(); i < args.size; i += threadCount()) row[i] = row[i] * share;
}

}  // namespace
