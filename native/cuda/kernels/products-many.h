// Products of many rows: a block multiplies some panels with some tiles, and every warp its share of them over all inputs.
// Include after products-stage.h.
#pragma once

#include "cuda/kernels/shapes.h"

namespace {

/** A BlockShape as constants. */
template <int itsWarpsOfPanels, int itsWarpsOfTiles, int itsPanels, int itsTiles, int itsStages, int itsStep, bool itsSumsShared>
struct Shape {
  static constexpr int warpsOfPanels = itsWarpsOfPanels, warpsOfTiles = itsWarpsOfTiles;
  static constexpr int panels = itsPanels, tiles = itsTiles;
  static constexpr int stages = itsStages, step = itsStep;
  static constexpr bool sumsShared = itsSumsShared;
  static constexpr int threads = warpsOfPanels * warpsOfTiles * 32;
  static constexpr int blockPanels = warpsOfPanels * panels, blockTiles = warpsOfTiles * tiles;
};

#define CHAIRLIFT_SHAPE(shape) \
  Shape<shape.warpsOfPanels, shape.warpsOfTiles, shape.panels, shape.tiles, shape.stages, shape.step, shape.sumsShared>
using MiddleShape = CHAIRLIFT_SHAPE(middleShape);
using ManyShape = CHAIRLIFT_SHAPE(manyShape);
#undef CHAIRLIFT_SHAPE

/** `groups` groups of a tile in shared memory: codes, scales, and what minimums are multiplied by. */
template <class F, int groups>
struct TileStage {
  static constexpr int codeBytes = groups * 256;
  static constexpr int scalesAt = codeBytes;
  static constexpr int sumsAt = scalesAt + groups * 32;
  // Those of a whole group and of its halves.
  static constexpr int sumBytes = F::hasMinimum ? groups * 96 : 0;
  static constexpr int bytes = sumsAt + sumBytes;

  /** One warp copies the groups from `first` on. */
  static CHAIRLIFT_METHOD void copyGroups(uint8_t* to, const InputView& input, int tile, int first) {
    const int64_t group = int64_t(tile) * input.groups + first;
    copyRun<codeBytes>(to, (const uint8_t*)input.codes + group * 256);
    copyRun<groups * 32>(to + scalesAt, (const uint8_t*)input.scales + group * 32);
    if constexpr (F::hasMinimum) copyRun<sumBytes>(to + sumsAt, (const uint8_t*)input.sums + group * 96);
  }
};

/** Shared memory of a block: stages, sums, addresses of panels. */
template <class F, class S>
struct ManyLayout {
  using Panels = PanelStage<F, S::step>;
  using Tiles = TileStage<F, S::step>;
  static constexpr int tilesAt = S::blockPanels * Panels::bytes;
  static constexpr int stageBytes = tilesAt + S::blockTiles * Tiles::bytes;
  static constexpr int sumsAt = S::stages * stageBytes;
  static constexpr int sumBytes = S::sumsShared ? S::panels * S::tiles * 4 * S::threads * 4 : 0;
  static constexpr int addressesAt = sumsAt + sumBytes;
};

/** One pass over all inputs, for tiles from `firstTile` up to `endTile`, which are of one member. */
template <class F, class S>
struct ManyRows {
  using Layout = ManyLayout<F, S>;
  using Panels = typename Layout::Panels;
  using Tiles = typename Layout::Tiles;

  const ProductArgs& args;
  int firstPanel, panelCount;
  // Of the block, and those of this pass.
  int blockTile, tileCount, firstTile, endTile, member;
  float total[S::panels][S::tiles][4];
  float sum[S::sumsShared ? 1 : S::panels][S::sumsShared ? 1 : S::tiles][4];

  CHAIRLIFT_METHOD uint8_t* stage(int step) const { return sharedMemory() + step % S::stages * Layout::stageBytes; }
  CHAIRLIFT_METHOD PanelAddress* addresses() const { return (PanelAddress*)(sharedMemory() + Layout::addressesAt); }
  CHAIRLIFT_METHOD int panelWarp() const { return threadIndex() / 32 % S::warpsOfPanels; }
  CHAIRLIFT_METHOD int tileWarp() const { return threadIndex() / 32 / S::warpsOfPanels; }

  CHAIRLIFT_METHOD float& sumAt(int p, int r, int i) {
    if constexpr (S::sumsShared) {
      return ((float*)(sharedMemory() + Layout::sumsAt))[((p * S::tiles + r) * 4 + i) * S::threads + threadIndex()];
    } else {
      return sum[p][r][i];
    }
  }

  CHAIRLIFT_METHOD void findPanels() {
    if (threadIndex() < S::blockPanels) {
      const int last = panelCount - 1, own = firstPanel + threadIndex();
      const ProductPlace place = placeOf(args, own < last ? own : last);
      const MatrixView& matrix = args.parts[place.part].matrix;
      addresses()[threadIndex()] = addressOf(matrix, int64_t(member) * matrix.panels + place.panel);
    }
    syncBlock();
  }

  CHAIRLIFT_METHOD void copyStage(int step) {
    uint8_t* const to = stage(step);
    const int first = step * S::step;
#pragma unroll
    for (int i = threadIndex() / 32; i < S::blockPanels + S::blockTiles; i += S::threads / 32) {
      if (i < S::blockPanels) {
        Panels::copyGroups(to + i * Panels::bytes, addresses()[i], firstMatrix(args), first);
      } else {
        const int own = i - S::blockPanels, tile = blockTile + own < tileCount ? blockTile + own : tileCount - 1;
        Tiles::copyGroups(to + Layout::tilesAt + own * Tiles::bytes, args.input, tile, first);
      }
    }
    commitCopies();
  }

  CHAIRLIFT_METHOD void addStage(int step, const uint32_t (&book)[4]) {
    const int lane = threadIndex() % 32, g = lane / 4, t = lane % 4;
    const uint8_t* const panels = stage(step) + panelWarp() * S::panels * Panels::bytes;
    const uint8_t* const tiles = stage(step) + Layout::tilesAt + tileWarp() * S::tiles * Tiles::bytes;
    const float unit = firstMatrix(args).unit;
#pragma unroll
    for (int pair = 0; pair < S::step / 2; pair++) {
      uint32_t a[2][S::panels][4];
#pragma unroll
      for (int p = 0; p < S::panels; p++) readPairOfGroups<F>(panels + p * Panels::bytes, book, pair, a[0][p], a[1][p]);
#pragma unroll
      for (int i = 0; i < 2; i++) {
        const int k = 2 * pair + i;
#pragma unroll
        for (int part = 0; part < F::parts; part++) {
          GroupScales<F> scales[S::panels];
          const int scaleGroup = Panels::scaleGroup(step * S::step, k, part, firstMatrix(args));
#pragma unroll
          for (int p = 0; p < S::panels; p++) {
            scales[p].template read<Panels>(panels + p * Panels::bytes, scaleGroup, k / 8, g, unit);
          }
          addTiles(a[i], scales, tiles, k, part, lane, t);
        }
      }
    }
  }

  CHAIRLIFT_METHOD void addTiles(const uint32_t (&a)[S::panels][4], const GroupScales<F> (&scales)[S::panels],
                                 const uint8_t* tiles, int k, int part, int lane, int t) {
    // Products first, then what depends on them; so many that registers suffice.
    constexpr int batch = S::panels * S::tiles >= 8 ? 8 / S::panels : S::tiles;
#pragma unroll
    for (int first = 0; first < S::tiles; first += batch) {
      int d[batch][S::panels][4];
#pragma unroll
      for (int r = 0; r < batch; r++) {
        const Words2 b = ((const Words2*)(tiles + (first + r) * Tiles::bytes))[k * 32 + lane];
#pragma unroll
        for (int p = 0; p < S::panels; p++) multiplyPart<F>(d[r][p], a[p], b, part);
      }
#pragma unroll
      for (int r = 0; r < batch; r++) {
        const uint8_t* const tile = tiles + (first + r) * Tiles::bytes;
        const Words2 x = ((const Words2*)(tile + Tiles::scalesAt))[k * 4 + t];
        Words2 y{};
        if constexpr (F::hasMinimum) y = ((const Words2*)(tile + Tiles::sumsAt))[(k * 3 + (F::parts == 2 ? 1 + part : 0)) * 4 + t];
#pragma unroll
        for (int p = 0; p < S::panels; p++) {
          scaleTile<F>(d[r][p], scales[p], asFloat(x.x), asFloat(x.y), total[p][first + r]);
          if constexpr (F::hasMinimum) addMinimums<F>(scales[p], asFloat(y.x), asFloat(y.y), total[p][first + r]);
        }
      }
    }
  }

  CHAIRLIFT_METHOD void endSegment(bool isFirst) {
#pragma unroll
    for (int p = 0; p < S::panels; p++) {
#pragma unroll
      for (int r = 0; r < S::tiles; r++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
          float& own = sumAt(p, r, i);
          own = isFirst ? total[p][r][i] : own + total[p][r][i];
          total[p][r][i] = 0;
        }
      }
    }
  }

  /** Stores the sums of a panel and a tile. */
  CHAIRLIFT_METHOD void storeTile(int p, int r) {
    const int lane = threadIndex() % 32, g = lane / 4, t = lane % 4;
    const int panel = firstPanel + panelWarp() * S::panels + p, tile = blockTile + tileWarp() * S::tiles + r;
    if (panel >= panelCount || tile < firstTile || tile >= endTile) return;
    const ProductPlace place = placeOf(args, panel);
    const ProductArgs::Part& part = args.parts[place.part];
    const int64_t biasAt = (int64_t(member) * part.matrix.panels + place.panel) * panelOutputs;
    const Tile own = args.tiles ? args.tiles[tile] : Tile{0, tile * rowsOfTile, args.rows - tile * rowsOfTile};
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const int column = g + i / 2 * 8, row = 2 * t + i % 2, output = place.panel * panelOutputs + column;
      if (row >= own.rows || output >= part.matrix.outputs) continue;
      float value = sumAt(p, r, i);
      if (part.bias) value = value + part.bias[biasAt + column];
      args.out[int64_t(own.firstRow + row) * args.outStride + part.offset + output] = value;
    }
  }

  CHAIRLIFT_METHOD void store() {
    // Registers have no index.
    [[maybe_unused]] constexpr int together = S::sumsShared ? 1 : S::panels * S::tiles;
#pragma unroll together
    for (int i = 0; i < S::panels * S::tiles; i++) storeTile(i / S::tiles, i % S::tiles);
  }

  CHAIRLIFT_METHOD void run() {
    const MatrixView& matrix = firstMatrix(args);
    const int groups = matrix.inputs / inputsOfGroup, steps = (groups + S::step - 1) / S::step;
    constexpr int stepsOfSegment = groupsOfSegment / S::step;
    uint32_t book[4] = {};
    if (F::encoding == codeCodebook) {
      for (int i = 0; i < 4; i++) book[i] = matrix.codebook[i];
    }
#pragma unroll
    for (int p = 0; p < S::panels; p++) {
#pragma unroll
      for (int r = 0; r < S::tiles; r++) {
        for (int i = 0; i < 4; i++) total[p][r][i] = 0;
      }
    }
    findPanels();
#pragma unroll 1
    for (int step = 0; step < S::stages - 1; step++) {
      if (step < steps) copyStage(step);
      else commitCopies();
    }
    const int ownTile = blockTile + tileWarp() * S::tiles;
    const bool takesPart = ownTile < endTile && ownTile + S::tiles > firstTile;
    for (int step = 0; step < steps; step++) {
      waitForCopies<S::stages - 2>();
      syncBlock();
      if (step + S::stages - 1 < steps) copyStage(step + S::stages - 1);
      else commitCopies();
      if (!takesPart) continue;
      addStage(step, book);
      if ((step + 1) % stepsOfSegment == 0 || step + 1 == steps) endSegment(step < stepsOfSegment);
    }
    if (takesPart) store();
    // The next pass writes the addresses and the stages.
    syncBlock();
  }
};

/** Blocks: x are panels of all parts, y are tiles, as many as S has. */
template <class F, class S>
CHAIRLIFT_DEVICE void multiplyMany(const ProductArgs& args) {
  startNext();
  waitForPrevious();
  takeMembers(args, blockY() * S::blockTiles, S::blockTiles, [&](int blockTile, int tileCount, int first, int end, int member) {
    ManyRows<F, S> pass{args, blockX() * S::blockPanels, panelsOf(args), blockTile, tileCount, first, end, member, {}, {}};
    pass.run();
  });
}

}  // namespace
