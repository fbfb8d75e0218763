// Products of float matrices with rows of floats. Include after products.h.
#pragma once

namespace {

/** Float matrices: each output and row is a chain over inputs, in segments too. Half a warp has the even rows of a tile. */
template <int encoding>
CHAIRLIFT_DEVICE void multiplyFloats(const ProductArgs& args) {
  waitForPrevious();
  startNext();
  const int warp = threadIndex() / 32, lane = threadIndex() % 32, warps = threadCount() / 32;
  const ProductPlace place = placeOf(args, blockX());
  const ProductArgs::Part& part = args.parts[place.part];
  const MatrixView& matrix = part.matrix;
  const int tile = blockY();
  if (args.tileCount && tile >= *args.tileCount) return;
  const Tile own = args.tiles ? args.tiles[tile] : Tile{0, tile * rowsOfTile, args.rows - tile * rowsOfTile};
  const uint8_t* const codes = matrix.codes + (int64_t(own.member) * matrix.panels + place.panel) * matrix.codeStride;
  const int column = lane % 16, half = lane / 16;
  const int length = encoding == codeF8 && matrix.blockInputs > inputsOfSegment ? matrix.blockInputs : inputsOfSegment;
  const int segments = (matrix.inputs + length - 1) / length;
  float* const partial = (float*)sharedMemory();
  const float* x[4];
  for (int r = 0; r < 4; r++) {
    const int row = 2 * r + half;
    x[r] = args.input.values + int64_t(own.firstRow + (row < own.rows ? row : 0)) * args.input.valueStride;
  }
  for (int segment = warp; segment < segments; segment += warps) {
    const int first = segment * length, end = first + length < matrix.inputs ? first + length : matrix.inputs;
    float total[4] = {};
    if (encoding == codeF8) {
      const int size = matrix.blockInputs;
      for (int at = first; at < end; at += size) {
        const uint8_t* const block = codes + int64_t(at / size) * panelOutputs * (4 + size);
        const float scale = ((const float*)block)[column];
        const uint8_t* const own8 = block + panelOutputs * 4 + column;
        float even[4] = {}, odd[4] = {};
        for (int k = 0; k < size; k += 2) {
          const float w0 = f8ToFloat(own8[k * panelOutputs]), w1 = f8ToFloat(own8[(k + 1) * panelOutputs]);
          for (int r = 0; r < 4; r++) {
            even[r] = fusedMultiplyAdd(x[r][at + k], w0, even[r]);
            odd[r] = fusedMultiplyAdd(x[r][at + k + 1], w1, odd[r]);
          }
        }
        for (int r = 0; r < 4; r++) total[r] = fusedMultiplyAdd(even[r] + odd[r], scale, total[r]);
      }
    } else {
#pragma unroll 8
      for (int k = first; k < end; k++) {
        const int at = k * panelOutputs + column;
        const float w = encoding == codeF32   ? ((const float*)codes)[at]
                        : encoding == codeF16 ? halfToFloat(((const uint16_t*)codes)[at])
                                              : brainToFloat(((const uint16_t*)codes)[at]);
        for (int r = 0; r < 4; r++) total[r] = fusedMultiplyAdd(x[r][k], w, total[r]);
      }
    }
    float* const to = partial + segment * panelOutputs * rowsOfTile;
    for (int r = 0; r < 4; r++) to[column * rowsOfTile + 2 * r + half] = total[r];
  }
  syncBlock();
  joinSegments(args, part, place.panel, own, partial, segments, rowsOfTile);
}

}  // namespace
