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

  template <int items, int threads>
  struct Copies {
    StageCopies<items, codeBytes, bytes, threads> codes;
    StageCopies<items, groups * 32, bytes, threads> scales;
    StageCopies<items, sumBytes ? sumBytes : 16, bytes, threads> sums;

    /** `groupOf` gives the first group of an item's tile. */
    template <class Source>
    CHAIRLIFT_METHOD void share(const InputView& input, const Source& groupOf) {
      codes.share([&](int i) { return (const uint8_t*)input.codes + groupOf(i) * 256; });
      scales.share([&](int i) { return (const uint8_t*)input.scales + groupOf(i) * 32; });
      if constexpr (F::hasMinimum) sums.share([&](int i) { return (const uint8_t*)input.sums + groupOf(i) * 96; });
    }
    CHAIRLIFT_METHOD void start(uint8_t* to, int first) const {
      codes.start(to, first * 256);
      scales.start(to + scalesAt, first * 32);
      if constexpr (F::hasMinimum) sums.start(to + sumsAt, first * 96);
    }
  };
};

/** Shared memory of a block: stages, sums. */
template <class F, class S>
struct ManyLayout {
  using Panels = PanelStage<F, S::step>;
  using Tiles = TileStage<F, S::step>;
  static constexpr int tilesAt = S::blockPanels * Panels::bytes;
  static constexpr int stageBytes = tilesAt + S::blockTiles * Tiles::bytes;
  static constexpr int sumsAt = S::stages * stageBytes;
  static constexpr int sumBytes = S::sumsShared ? S::panels * S::tiles * 4 * S::threads * 4 : 0;
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
  Floats4 sum[S::sumsShared ? 1 : S::panels][S::sumsShared ? 1 : S::tiles];

  typename Panels::template Copies<S::blockPanels, S::threads> panelCopies;
  typename Tiles::template Copies<S::blockTiles, S::threads> tileCopies;

  CHAIRLIFT_METHOD uint8_t* stage(int slot) const { return sharedMemory() + slot * Layout::stageBytes; }
  static CHAIRLIFT_METHOD int after(int slot) { return slot + 1 == S::stages ? 0 : slot + 1; }
  CHAIRLIFT_METHOD int panelWarp() const { return threadIndex() / 32 % S::warpsOfPanels; }
  CHAIRLIFT_METHOD int tileWarp() const { return threadIndex() / 32 / S::warpsOfPanels; }

  /** The sums of a panel and a tile, in the order of `total`. */
  CHAIRLIFT_METHOD Floats4& sumAt(int p, int r) {
    if constexpr (S::sumsShared) {
      return ((Floats4*)(sharedMemory() + Layout::sumsAt))[(p * S::tiles + r) * S::threads + threadIndex()];
    } else {
      return sum[p][r];
    }
  }

  CHAIRLIFT_METHOD void shareCopies() {
    panelCopies.share([&](int i) {
      const int last = panelCount - 1, own = firstPanel + i;
      const ProductPlace place = placeOf(args, own < last ? own : last);
      const MatrixView& matrix = args.parts[place.part].matrix;
      return addressOf(matrix, int64_t(member) * matrix.panels + place.panel);
    });
    tileCopies.share(args.input, [&](int i) {
      const int own = blockTile + i;
      return int64_t(own < tileCount ? own : tileCount - 1) * args.input.groups;
    });
  }

  CHAIRLIFT_METHOD void copyStage(int step, int slot) const {
    panelCopies.start(stage(slot), firstMatrix(args), step * S::step);
    tileCopies.start(stage(slot) + Layout::tilesAt, step * S::step);
    commitCopies();
  }

  CHAIRLIFT_METHOD void addStage(int step, int slot, const uint32_t (&book)[4]) {
    const int lane = threadIndex() % 32, g = lane / 4, t = lane % 4;
    const uint8_t* const panels = stage(slot) + panelWarp() * S::panels * Panels::bytes;
    const uint8_t* const tiles = stage(slot) + Layout::tilesAt + tileWarp() * S::tiles * Tiles::bytes;
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
            scales[p].template read<Panels>(panels + p * Panels::bytes, scaleGroup, k / 8, g);
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
    const float unit = unitOf<F>(firstMatrix(args));
#pragma unroll
    for (int p = 0; p < S::panels; p++) {
#pragma unroll
      for (int r = 0; r < S::tiles; r++) {
        float(&own)[4] = total[p][r];
        const Floats4 ended{own[0] * unit, own[1] * unit, own[2] * unit, own[3] * unit};
        const Floats4 before = isFirst ? Floats4{} : sumAt(p, r);
        sumAt(p, r) =
            isFirst ? ended : Floats4{before.x + ended.x, before.y + ended.y, before.z + ended.z, before.w + ended.w};
#pragma unroll
        for (int i = 0; i < 4; i++) own[i] = 0;
      }
    }
  }

  /** Where this lane's outputs of a panel go, g and g + 8, and what is added to them. */
  struct Outputs {
    int64_t at;
    float bias[2];
    bool exist[2], hasBias;
  };
  CHAIRLIFT_METHOD Outputs outputsOf(int p) const {
    Outputs own{};
    const int panel = firstPanel + panelWarp() * S::panels + p;
    if (panel >= panelCount) return own;
    const ProductPlace place = placeOf(args, panel);
    const ProductArgs::Part& part = args.parts[place.part];
    const int first = place.panel * panelOutputs + threadIndex() % 32 / 4;
    own.at = part.offset + first;
    own.hasBias = part.bias;
    for (int i = 0; i < 2; i++) {
      own.exist[i] = first + 8 * i < part.matrix.outputs;
      if (own.hasBias) own.bias[i] = part.bias[int64_t(member) * part.matrix.panels * panelOutputs + first + 8 * i];
    }
    return own;
  }

  /** Stores two outputs of a row, where they exist. */
  CHAIRLIFT_METHOD void storePair(float* row, const Outputs& outputs, float first, float second) const {
    float* const to = row + outputs.at;
    if (outputs.exist[0]) to[0] = outputs.hasBias ? first + outputs.bias[0] : first;
    if (outputs.exist[1]) to[8] = outputs.hasBias ? second + outputs.bias[1] : second;
  }

  CHAIRLIFT_METHOD void store() {
    Outputs outputs[S::panels];
#pragma unroll
    for (int p = 0; p < S::panels; p++) outputs[p] = outputsOf(p);
    // Registers have no index.
    [[maybe_unused]] constexpr int together = S::sumsShared ? 1 : S::tiles;
#pragma unroll together
    for (int r = 0; r < S::tiles; r++) {
      const int tile = blockTile + tileWarp() * S::tiles + r, row = threadIndex() % 4 * 2;
      if (tile < firstTile || tile >= endTile) continue;
      const Tile own = args.tiles ? args.tiles[tile] : Tile{0, tile * rowsOfTile, args.rows - tile * rowsOfTile};
      float* const to = args.out + int64_t(own.firstRow + row) * args.outStride;
#pragma unroll
      for (int p = 0; p < S::panels; p++) {
        const Floats4 sums = sumAt(p, r);
        if (row < own.rows) storePair(to, outputs[p], sums.x, sums.z);
        if (row + 1 < own.rows) storePair(to + args.outStride, outputs[p], sums.y, sums.w);
      }
    }
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
    shareCopies();
#pragma unroll 1
    for (int step = 0; step < S::stages - 1; step++) {
      if (step < steps) copyStage(step, step);
      else commitCopies();
    }
    const int ownTile = blockTile + tileWarp() * S::tiles;
    const bool takesPart = ownTile < endTile && ownTile + S::tiles > firstTile;
    int slot = 0, copied = S::stages - 1;
#pragma unroll 1
    for (int step = 0; step < steps; step++) {
      waitForCopies<S::stages - 2>();
      syncBlock();
      if (step + S::stages - 1 < steps) copyStage(step + S::stages - 1, copied);
      else commitCopies();
      copied = after(copied);
      if (takesPart) {
        addStage(step, slot, book);
        if ((step + 1) % stepsOfSegment == 0 || step + 1 == steps) endSegment(step < stepsOfSegment);
      }
      slot = after(slot);
    }
    if (takesPart) store();
    // The next pass writes the stages.
    syncBlock();
  }
};

/** Blocks: x are panels of all parts, y are tiles, as many as S has. */
template <class F, class S>
CHAIRLIFT_DEVICE void multiplyMany(const ProductArgs& args) {
  startNext();
  waitForPrevious();
  takeMembers(args, blockY() * S::blockTiles, S::blockTiles, [&](int blockTile, int tileCount, int first, int end, int member) {
    ManyRows<F, S> pass{args, blockX() * S::blockPanels, panelsOf(args), blockTile, tileCount, first, end, member, {}, {}, {}, {}};
    pass.run();
  });
}

}  // namespace
