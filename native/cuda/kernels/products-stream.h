// Products of few rows, at the speed of memory. Every warp has a row of stages of its own in shared memory, which its copies fill
// ahead of it, across segments and panels. Include after products-stage.h.
#pragma once

#include "cuda/kernels/shapes.h"

namespace {

/** A stage is a segment of nibbles, or half of one of bytes. */
template <class F>
struct StreamStage : PanelStage<F, F::isByte ? groupsOfSegment / 2 : groupsOfSegment> {
  // Of a segment.
  static constexpr int parts = F::isByte ? 2 : 1;
};

/** Where a warp's copies are: a part of a segment of a panel of the block. */
template <class F>
struct StreamCursor {
  const ProductArgs& args;
  int member, panelCount, segments, groups;
  int panel, segment, part;
  PanelAddress from;

  CHAIRLIFT_METHOD void find() {
    if (panel >= panelCount) return;
    const ProductPlace place = placeOf(args, panel);
    const MatrixView& matrix = args.parts[place.part].matrix;
    from = addressOf(matrix, int64_t(member) * matrix.panels + place.panel);
  }
  CHAIRLIFT_METHOD int firstGroup() const { return segment * groupsOfSegment + part * StreamStage<F>::groups; }

  /** Copies what the cursor is at, if anything is left, and moves on. */
  CHAIRLIFT_METHOD void copy(uint8_t* to) {
    using Stage = StreamStage<F>;
    if (panel < panelCount) {
      const int lane = threadIndex() % 32;
#pragma unroll
      for (int i = lane; i < Stage::pieces; i += 32) Stage::copyPiece(to, from, firstMatrix(args), firstGroup(), i);
      part++;
      if (part == Stage::parts || firstGroup() >= groups) {
        part = 0;
        segment += threadCount() / 32;
        if (segment >= segments) {
          segment = threadIndex() / 32;
          panel += blocksX();
          find();
        }
      }
    }
    commitCopies();
  }
};

/** Adds the groups of a stage, `count` of which there are, to the sums of `tiles` tiles. */
template <class F, int tiles>
CHAIRLIFT_DEVICE void addStreamed(const uint8_t* stage, const InputView& input, int64_t tile, int first, int count,
                                  const MatrixView& shape, const uint32_t (&book)[4], float (&total)[tiles][4]) {
  using Stage = StreamStage<F>;
  const int lane = threadIndex() % 32, g = lane / 4, t = lane % 4;
#pragma unroll 2
  for (int pair = 0; pair < Stage::groups / 2; pair++) {
    if (2 * pair >= count) break;
    uint32_t a[2][4];
    readPairOfGroups<F>(stage, book, pair, a[0], a[1]);
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const int k = 2 * pair + i;
      const int64_t at = tile * input.groups + first + k;
      const Words2* const codes = (const Words2*)input.codes + at * 32 + lane;
      const Words2* const scales = (const Words2*)input.scales + at * 4 + t;
      const Words2* const sums = (const Words2*)input.sums + at * 12 + t;
#pragma unroll
      for (int part = 0; part < F::parts; part++) {
        GroupScales<F> own;
        own.template read<Stage>(stage, Stage::scaleGroup(first, k, part, shape), k / 8, g, shape.unit);
#pragma unroll
        for (int r = 0; r < tiles; r++) {
          const int64_t after = int64_t(r) * input.groups;
          int d[4];
          multiplyPart<F>(d, a[i], codes[after * 32], part);
          const Words2 x = scales[after * 4];
          scaleTile<F>(d, own, asFloat(x.x), asFloat(x.y), total[r]);
          if constexpr (F::hasMinimum) {
            const Words2 y = sums[after * 12 + (F::parts == 2 ? 4 + part * 4 : 0)];
            addMinimums<F>(own, asFloat(y.x), asFloat(y.y), total[r]);
          }
        }
      }
    }
  }
}

/**
 * Blocks: x take panels of all parts in turn, y are `tiles` tiles. There are no more warps than segments. Shared memory: stages of
 * all warps, then partial sums [segment][output][row].
 */
template <class F, int tiles>
CHAIRLIFT_DEVICE void multiplyStream(const ProductArgs& args) {
  using Stage = StreamStage<F>;
  startNext();
  const int warp = threadIndex() / 32, lane = threadIndex() % 32, warps = threadCount() / 32, g = lane / 4, t = lane % 4;
  const MatrixView& shape = firstMatrix(args);
  if (args.tiles) waitForPrevious();
  const int firstTile = blockY() * tiles;
  if (args.tileCount && firstTile >= *args.tileCount) return;
  const Tile own = args.tiles ? args.tiles[firstTile]
                              : Tile{0, firstTile * rowsOfTile, args.rows - firstTile * rowsOfTile};
  const int groups = shape.inputs / inputsOfGroup, segments = (groups + groupsOfSegment - 1) / groupsOfSegment;
  const int panels = panelsOf(args);
  uint32_t book[4] = {};
  if (F::encoding == codeCodebook) {
    for (int i = 0; i < 4; i++) book[i] = shape.codebook[i];
  }
  constexpr int rows = rowsOfTile * tiles;
  uint8_t* const ring = sharedMemory() + warp * streamStages * Stage::bytes;
  float* const partial = (float*)(sharedMemory() + warps * streamStages * Stage::bytes);
  StreamCursor<F> ahead{args, own.member, panels, segments, groups, blockX(), warp, 0, {}};
  ahead.find();
#pragma unroll 1
  for (int i = 0; i < streamStages - 1; i++) ahead.copy(ring + i * Stage::bytes);
  // Weights are on their way while the kernels before end.
  waitForPrevious();
  int slot = 0;
  for (int panel = blockX(); panel < panels; panel += blocksX()) {
    for (int segment = warp; segment < segments; segment += warps) {
      float total[tiles][4] = {};
#pragma unroll 1
      for (int part = 0; part < Stage::parts; part++) {
        const int first = segment * groupsOfSegment + part * Stage::groups;
        if (first >= groups) break;
        waitForCopies<streamStages - 2>();
        syncWarp();
        ahead.copy(ring + (slot == 0 ? streamStages - 1 : slot - 1) * Stage::bytes);
        addStreamed<F, tiles>(ring + slot * Stage::bytes, args.input, firstTile, first, groups - first, shape, book, total);
        slot = slot + 1 == streamStages ? 0 : slot + 1;
      }
      // The sums of the panel before have been read.
      if (segment == warp && panel != blockX()) syncBlock();
      float* const to = partial + segment * panelOutputs * rows;
#pragma unroll
      for (int r = 0; r < tiles; r++) {
        for (int i = 0; i < 4; i++) to[(g + i / 2 * 8) * rows + r * rowsOfTile + 2 * t + i % 2] = total[r][i];
      }
    }
    syncBlock();
    const ProductPlace place = placeOf(args, panel);
    joinSegments(args, args.parts[place.part], place.panel, own, partial, segments, rows);
  }
}

}  // namespace
