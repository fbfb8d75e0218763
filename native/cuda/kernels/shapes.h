// How blocks of products share their work, for kernels and for those who launch them.
#pragma once

namespace chairlift {
namespace cuda {

/**
 * A block of many rows: its warps by panels and by tiles, the panels and tiles of a warp, and stages of `step` groups under way in
 * shared memory. The sums of segments are in shared memory, too, where registers do not suffice.
 */
struct BlockShape {
  int warpsOfPanels, warpsOfTiles, panels, tiles, stages, step;
  bool sumsShared;

  constexpr int threads() const { return warpsOfPanels * warpsOfTiles * 32; }
  constexpr int blockPanels() const { return warpsOfPanels * panels; }
  constexpr int blockTiles() const { return warpsOfTiles * tiles; }
};

// 128 outputs by 128 rows.
constexpr BlockShape manyShape{4, 2, 2, 8, 2, 8, true};

// A block of many rows of floats: 128 outputs by 64 rows, stages of 32 inputs.
constexpr int floatPanels = 8, floatTiles = 8, floatStep = 32, floatStages = 2;

}  // namespace cuda
}  // namespace chairlift
