// Products of float matrices with rows of floats: the sum of an output and a row is one chain over the inputs of a segment. That of
// F8 is two chains over a block of inputs, even and odd ones, before the block's scale.
// Include after products-stage.h.
#pragma once

#include "cuda/kernels/shapes.h"

namespace {

/** Values of two outputs next to each other. */
struct PairValues {
  float first, second;
};

template <int encoding>
CHAIRLIFT_DEVICE PairValues readTwo(const uint8_t* from) {
  if constexpr (encoding == codeF32) {
    const Words2 both = *(const Words2*)from;
    return {asFloat(both.x), asFloat(both.y)};
  } else if constexpr (encoding == codeF8) {
    const uint32_t both = *(const uint16_t*)from;
    return {f8ToFloat(both & 255u), f8ToFloat(both >> 8)};
  } else {
    const uint32_t both = *(const uint32_t*)from;
    if constexpr (encoding == codeBf16) return {asFloat(both << 16), asFloat(both & 0xffff0000u)};
    return {halfToFloat(uint16_t(both & 0xffffu)), halfToFloat(uint16_t(both >> 16))};
  }
}

/** The value of one output; F8 has scales besides. */
template <int encoding>
CHAIRLIFT_DEVICE float readOne(const uint8_t* from) {
  if constexpr (encoding == codeF32) return *(const float*)from;
  if constexpr (encoding == codeF16) return halfToFloat(*(const uint16_t*)from);
  return brainToFloat(*(const uint16_t*)from);
}

template <int encoding>
struct FloatFormat {
  static constexpr int bytes = encoding == codeF32 ? 4 : encoding == codeF8 ? 1 : 2;
  // Of one input of a panel.
  static constexpr int rowBytes = bytes * panelOutputs;

  /** Where an input of a panel starts. */
  static CHAIRLIFT_METHOD const uint8_t* at(const MatrixView& matrix, const uint8_t* panel, int k) {
    if constexpr (encoding == codeF8) {
      const int size = matrix.blockInputs;
      return panel + int64_t(k / size) * panelOutputs * (4 + size) + panelOutputs * 4 + k % size * panelOutputs;
    } else {
      return panel + int64_t(k) * rowBytes;
    }
  }
  /** The scales of the block of an input. */
  static CHAIRLIFT_METHOD const float* scalesAt(const MatrixView& matrix, const uint8_t* panel, int k) {
    const int size = matrix.blockInputs;
    return (const float*)(panel + int64_t(k / size) * panelOutputs * (4 + size));
  }
};

/** Sums of one segment, of two outputs and `rows` rows. The rows of `x` are aligned to 16 bytes. */
template <int encoding, int rows>
CHAIRLIFT_DEVICE void addFloats(const MatrixView& matrix, const uint8_t* panel, int column, const float* const (&x)[rows],
                                int first, int end, float (&total)[rows][2]) {
  using Format = FloatFormat<encoding>;
  constexpr bool isF8 = encoding == codeF8;
  const int whole = first + (end - first) / 4 * 4;
  float odd[rows][2] = {}, even[rows][2] = {};
  [[maybe_unused]] constexpr int together = rows > 4 ? 2 : 4;
#pragma unroll together
  for (int k = first; k < whole; k += 4) {
    const uint8_t* const from = Format::at(matrix, panel, k) + column * Format::bytes;
    PairValues w[4];
#pragma unroll
    for (int i = 0; i < 4; i++) w[i] = readTwo<encoding>(from + i * Format::rowBytes);
#pragma unroll
    for (int r = 0; r < rows; r++) {
      const Words4 four = *(const Words4*)(x[r] + k);
      const float values[4] = {asFloat(four.x), asFloat(four.y), asFloat(four.z), asFloat(four.w)};
#pragma unroll
      for (int i = 0; i < 4; i++) {
        float(&to)[2] = isF8 ? (i % 2 ? odd[r] : even[r]) : total[r];
        to[0] = fusedMultiplyAdd(values[i], w[i].first, to[0]);
        to[1] = fusedMultiplyAdd(values[i], w[i].second, to[1]);
      }
    }
    if constexpr (isF8) {
      if ((k + 4) % matrix.blockInputs != 0) continue;
      const float* const scales = Format::scalesAt(matrix, panel, k) + column;
      const float s0 = scales[0], s1 = scales[1];
#pragma unroll
      for (int r = 0; r < rows; r++) {
        total[r][0] = fusedMultiplyAdd(even[r][0] + odd[r][0], s0, total[r][0]);
        total[r][1] = fusedMultiplyAdd(even[r][1] + odd[r][1], s1, total[r][1]);
        even[r][0] = even[r][1] = odd[r][0] = odd[r][1] = 0;
      }
    }
  }
  // Blocks of F8 are whole.
  if constexpr (!isF8) {
    for (int k = whole; k < end; k++) {
      const PairValues w = readTwo<encoding>(Format::at(matrix, panel, k) + column * Format::bytes);
#pragma unroll
      for (int r = 0; r < rows; r++) {
        total[r][0] = fusedMultiplyAdd(x[r][k], w.first, total[r][0]);
        total[r][1] = fusedMultiplyAdd(x[r][k], w.second, total[r][1]);
      }
    }
  }
}

/**
 * Few rows: eight lanes have a segment, two outputs each. Blocks: x are panels of all parts, y are tiles, of which `rows` rows are
 * multiplied. Shared memory: partial sums [segment][output][row].
 */
template <int encoding, int rows>
CHAIRLIFT_DEVICE void multiplyFloats(const ProductArgs& args) {
  startNext();
  waitForPrevious();
  const int warp = threadIndex() / 32, lane = threadIndex() % 32, warps = threadCount() / 32;
  const ProductPlace place = placeOf(args, blockX());
  const ProductArgs::Part& part = args.parts[place.part];
  const MatrixView& matrix = part.matrix;
  const int tile = blockY();
  if (args.tileCount && tile >= *args.tileCount) return;
  const Tile own = args.tiles ? args.tiles[tile] : Tile{0, tile * rowsOfTile, args.rows - tile * rowsOfTile};
  const uint8_t* const panel = matrix.codes + (int64_t(own.member) * matrix.panels + place.panel) * matrix.codeStride;
  const int column = lane % 8 * 2;
  const int length = matrix.blockInputs > inputsOfSegment ? matrix.blockInputs : inputsOfSegment;
  const int segments = (matrix.inputs + length - 1) / length;
  float* const partial = (float*)sharedMemory();
  const float* x[rows];
#pragma unroll
  for (int r = 0; r < rows; r++) {
    x[r] = args.input.values + int64_t(own.firstRow + (r < own.rows ? r : 0)) * args.input.valueStride;
  }
  for (int segment = warp * 4 + lane / 8; segment < segments; segment += warps * 4) {
    const int first = segment * length, end = first + length < matrix.inputs ? first + length : matrix.inputs;
    float total[rows][2] = {};
    addFloats<encoding, rows>(matrix, panel, column, x, first, end, total);
    float* const to = partial + (segment * panelOutputs + column) * rows;
#pragma unroll
    for (int r = 0; r < rows; r++) {
      to[r] = total[r][0];
      to[rows + r] = total[r][1];
    }
  }
  syncBlock();
  joinSegments(args, part, place.panel, own, partial, segments, rows);
}

/** How a block of many rows of floats is made: 128 outputs by 64 rows, eight outputs of a thread by some rows of a tile. */
template <int itsEncoding>
struct FloatBlock {
  static constexpr int encoding = itsEncoding;
  static constexpr bool isF8 = encoding == codeF8;
  static constexpr int panels = floatPanels, tiles = floatTiles, step = floatStep, stages = floatStages;
  static constexpr int rows = isF8 ? 4 : 8;
  static constexpr int threads = 2 * panels * tiles * rowsOfTile / rows;
  static constexpr int rowBytes = FloatFormat<encoding>::rowBytes;
  // Padded, so that the panels of a warp, and its rows, lie in different banks.
  static constexpr int panelBytes = step * rowBytes + rowBytes;
  static constexpr int inputBytes = step * 4 + 16;
  static constexpr int inputsAt = panels * panelBytes;
  static constexpr int stageBytes = inputsAt + tiles * rowsOfTile * inputBytes;
  static constexpr int sumsAt = stages * stageBytes;
};

/** One pass over all inputs, for tiles from `firstTile` up to `endTile`, which are of one member. */
template <class B>
struct ManyFloats {
  using Format = FloatFormat<B::encoding>;

  const ProductArgs& args;
  int firstPanel, panelCount;
  int blockTile, tileCount, firstTile, endTile, member;

  CHAIRLIFT_METHOD uint8_t* stage(int step) const { return sharedMemory() + step % B::stages * B::stageBytes; }
  /** This thread's panel of the block, the first of its outputs in it, and its first row of the block. */
  CHAIRLIFT_METHOD int ownPanel() const { return threadIndex() % (2 * B::panels) / 2; }
  CHAIRLIFT_METHOD int ownColumn() const { return threadIndex() % 2 * 8; }
  CHAIRLIFT_METHOD int ownRow() const { return threadIndex() / (2 * B::panels) * B::rows; }
  CHAIRLIFT_METHOD float& sumAt(int row, int i) const {
    return ((float*)(sharedMemory() + B::sumsAt))[(row * 8 + i) * B::threads + threadIndex()];
  }
  CHAIRLIFT_METHOD Tile tileAt(int tile) const {
    return args.tiles ? args.tiles[tile] : Tile{0, tile * rowsOfTile, args.rows - tile * rowsOfTile};
  }
  CHAIRLIFT_METHOD const uint8_t* panelAt(int own) const {
    const int wanted = firstPanel + own, last = panelCount - 1;
    const ProductPlace place = placeOf(args, wanted < last ? wanted : last);
    const MatrixView& matrix = args.parts[place.part].matrix;
    return matrix.codes + (int64_t(member) * matrix.panels + place.panel) * matrix.codeStride;
  }

  CHAIRLIFT_METHOD void copyStage(int step) {
    const MatrixView& matrix = firstMatrix(args);
    uint8_t* const to = stage(step);
    const int first = step * B::step, left = matrix.inputs - first, count = left < B::step ? left : B::step;
    constexpr int panelPieces = B::step * B::rowBytes / 16, inputPieces = B::step / 4;
    for (int i = threadIndex(); i < B::panels * panelPieces; i += B::threads) {
      const int own = i / panelPieces, at = i % panelPieces * 16;
      if (at >= count * B::rowBytes) continue;
      copyToShared(to + own * B::panelBytes + at, Format::at(matrix, panelAt(own), first) + at);
    }
    for (int i = threadIndex(); i < B::tiles * rowsOfTile * inputPieces; i += B::threads) {
      const int row = i / inputPieces, piece = i % inputPieces;
      const int wanted = blockTile + row / rowsOfTile, tile = wanted < tileCount ? wanted : tileCount - 1;
      const Tile own = tileAt(tile);
      const int64_t from = own.firstRow + (row % rowsOfTile < own.rows ? row % rowsOfTile : 0);
      copyToShared(to + B::inputsAt + row * B::inputBytes + piece * 16,
                   args.input.values + from * args.input.valueStride + first + piece * 4);
    }
    commitCopies();
  }

  /** The eight outputs' values of an input. */
  static CHAIRLIFT_METHOD void readEight(const uint8_t* from, float (&w)[8]) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      PairValues two{};
      if constexpr (B::encoding == codeF32) two = readTwo<codeF32>(from + i * 8);
      else if constexpr (B::isF8) two = readTwo<codeF8>(from + i * 2);
      else two = readTwo<B::encoding>(from + i * 4);
      w[2 * i] = two.first;
      w[2 * i + 1] = two.second;
    }
  }

  CHAIRLIFT_METHOD void addInput(const uint8_t* weights, const uint8_t* inputs, int k, float (&to)[B::rows][8]) {
    float w[8];
    readEight(weights + k * B::rowBytes, w);
#pragma unroll
    for (int r = 0; r < B::rows; r++) {
      const float x = ((const float*)(inputs + r * B::inputBytes))[k];
#pragma unroll
      for (int i = 0; i < 8; i++) to[r][i] = fusedMultiplyAdd(x, w[i], to[r][i]);
    }
  }

  CHAIRLIFT_METHOD void run() {
    const MatrixView& matrix = firstMatrix(args);
    const int steps = (matrix.inputs + B::step - 1) / B::step;
    const int length = matrix.blockInputs > inputsOfSegment ? matrix.blockInputs : inputsOfSegment;
    float total[B::rows][8] = {}, even[B::isF8 ? B::rows : 1][8] = {}, odd[B::isF8 ? B::rows : 1][8] = {};
#pragma unroll 1
    for (int step = 0; step < B::stages - 1; step++) {
      if (step < steps) copyStage(step);
      else commitCopies();
    }
    for (int step = 0; step < steps; step++) {
      waitForCopies<B::stages - 2>();
      syncBlock();
      if (step + B::stages - 1 < steps) copyStage(step + B::stages - 1);
      else commitCopies();
      const uint8_t* const weights = stage(step) + ownPanel() * B::panelBytes + ownColumn() * Format::bytes;
      const uint8_t* const inputs = stage(step) + B::inputsAt + ownRow() * B::inputBytes;
      const int first = step * B::step, end = first + B::step;
      if constexpr (B::isF8) {
#pragma unroll 4
        for (int k = 0; k < B::step; k += 2) {
          addInput(weights, inputs, k, even);
          addInput(weights, inputs, k + 1, odd);
        }
        if (end % matrix.blockInputs == 0) {
          const float* const scales = Format::scalesAt(matrix, panelAt(ownPanel()), first) + ownColumn();
#pragma unroll
          for (int r = 0; r < B::rows; r++) {
#pragma unroll
            for (int i = 0; i < 8; i++) {
              total[r][i] = fusedMultiplyAdd(even[r][i] + odd[r][i], scales[i], total[r][i]);
              even[r][i] = odd[r][i] = 0;
            }
          }
        }
      } else if (end <= matrix.inputs) {
#pragma unroll 8
        for (int k = 0; k < B::step; k++) addInput(weights, inputs, k, total);
      } else {
        for (int k = 0; k < matrix.inputs - first; k++) addInput(weights, inputs, k, total);
      }
      if (end % length != 0 && step + 1 != steps) continue;
      const bool isFirst = first < length;
#pragma unroll
      for (int r = 0; r < B::rows; r++) {
#pragma unroll
        for (int i = 0; i < 8; i++) {
          sumAt(r, i) = isFirst ? total[r][i] : sumAt(r, i) + total[r][i];
          total[r][i] = 0;
        }
      }
    }
    store();
    // The next pass writes the stages.
    syncBlock();
  }

  CHAIRLIFT_METHOD void store() {
    const int panel = firstPanel + ownPanel(), tile = blockTile + ownRow() / rowsOfTile;
    if (panel >= panelCount || tile < firstTile || tile >= endTile) return;
    const ProductPlace place = placeOf(args, panel);
    const ProductArgs::Part& part = args.parts[place.part];
    const Tile own = tileAt(tile);
    const int first = place.panel * panelOutputs + ownColumn();
    const float* const bias =
        part.bias ? part.bias + (int64_t(member) * part.matrix.panels + place.panel) * panelOutputs + ownColumn() : nullptr;
    for (int r = 0; r < B::rows; r++) {
      const int row = ownRow() % rowsOfTile + r;
      if (row >= own.rows) continue;
      float* const to = args.out + int64_t(own.firstRow + row) * args.outStride + part.offset + first;
      for (int i = 0; i < 8; i++) {
        if (first + i < part.matrix.outputs) to[i] = bias ? sumAt(r, i) + bias[i] : sumAt(r, i);
      }
    }
  }
};

/** Many rows. Blocks: x are panels of all parts, y are tiles, as many as FloatBlock has. */
template <int encoding>
CHAIRLIFT_DEVICE void multiplyManyFloats(const ProductArgs& args) {
  using B = FloatBlock<encoding>;
  startNext();
  waitForPrevious();
  takeMembers(args, blockY() * B::tiles, B::tiles, [&](int blockTile, int tileCount, int first, int end, int member) {
    ManyFloats<B> pass{args, blockX() * B::panels, panelsOf(args), blockTile, tileCount, first, end, member};
    pass.run();
  });
}

}  // namespace
