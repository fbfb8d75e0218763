// Matrix products of quantized matrices on AMX: 16 rows by 16 columns at a time, the integer part in tiles, the
// rest as everywhere else. Rows that fill no tile go to the vector kernels, which give the same bits.
// Include after kernels-matrix.h of the AVX-512 family.
#pragma once

#include <immintrin.h>

#include "kernels.h"

namespace {

using namespace chairlift;

constexpr int tileRows = 16;

struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t startRow = 0;
  uint8_t reserved[14] = {};
  uint16_t columnBytes[16] = {};
  uint8_t rows[16] = {};
};

// Tile 0 and 1: products in turn, so that one is computed while the other is read. 2: inputs. 3: weights.
template <int scaleInputs>
inline void configureTiles() {
  TileConfig config;
  for (int tile = 0; tile < 2; tile++) {
    config.rows[tile] = tileRows;
    config.columnBytes[tile] = panelColumns * sizeof(int32_t);
  }
  config.rows[2] = tileRows;
  config.columnBytes[2] = scaleInputs;
  config.rows[3] = scaleInputs / 4;
  config.columnBytes[3] = 64;
  _tile_loadconfig(&config);
}

/** Codes of one group as tiles read them: bytes as they lie, nibbles unpacked into `room`. */
template <Encoding encoding>
inline const uint8_t* tileCodes(const uint8_t* from, uint8_t* room) {
  if constexpr (encoding == Encoding::Byte) return from;
  Codes codes[codesPerGroup];
  loadGroup<encoding>(from, codes);
  for (int q = 0; q < codesPerGroup; q++) _mm512_store_si512(room + q * 64, codes[q].bytes);
  return room;
}

/** One product of a 16-row tile with a scale group of a panel, left in `dots`. */
inline void multiplyTileGroup(int turn, const int8_t* inputs, size_t stride, const uint8_t* codes, int32_t* dots) {
  _tile_loadd(2, inputs, stride);
  _tile_loadd(3, codes, 64);
  // The instructions name their tiles, so each turn is written out.
  if (turn == 0) {
    _tile_zero(0);
    _tile_dpbsud(0, 2, 3);
    _tile_stored(0, dots, 64);
  } else {
    _tile_zero(1);
    _tile_dpbsud(1, 2, 3);
    _tile_stored(1, dots, 64);
  }
}

template <Encoding encoding, int scaleInputs>
inline void multiplySixteen(const PackedMatrix& matrix, const Activations& x, int firstRow, int panelIndex,
                            const float* bias, float* out, size_t outStride) {
  constexpr int parts = groupInputs / scaleInputs;
  constexpr size_t groupBytes = encoding == Encoding::Byte ? 512 : 256;
  const uint8_t* panel = matrix.panels + size_t(panelIndex) * matrix.panelBytes;
  const size_t scaleStride = x.codeStride / groupInputs, sumStride = scaleStride * groupSums;
  const int8_t* inputs = x.codes + size_t(firstRow) * x.codeStride;
  const float* scales = x.scales + size_t(firstRow) * scaleStride;
  const float* sums = x.sums + size_t(firstRow) * sumStride;
  const Vec factor = Vec::set(float(codeSumFactor(encoding, matrix.zero)));
  alignas(64) uint8_t room[2][512];
  alignas(64) int32_t dots[2][tileRows * panelColumns];
  Vec total[tileRows];
  for (Vec& row : total) row = Vec::zero();

  // The tile product of one scale group is started before the last one's is read, so that neither waits.
  const int scaleGroups = matrix.inputs / scaleInputs;
  const uint8_t* codes = nullptr;
  const auto start = [&](int scaleGroup) {
    const int g = scaleGroup / parts, part = scaleGroup % parts;
    if (part == 0) {
      const uint8_t* packed = panel + size_t(g) * groupBytes;
      prefetchGroup<encoding>(packed);
      codes = tileCodes<encoding>(packed, room[g % 2]);
    }
    multiplyTileGroup(scaleGroup % 2, inputs + scaleGroup * scaleInputs, x.codeStride,
                      codes + part * scaleInputs * panelColumns, dots[scaleGroup % 2]);
  };
  start(0);
  for (int scaleGroup = 0; scaleGroup < scaleGroups; scaleGroup++) {
    if (scaleGroup + 1 < scaleGroups) start(scaleGroup + 1);
    const size_t g = size_t(scaleGroup / parts);
    const size_t sumAt = g * groupSums + sumIndex<scaleInputs>(scaleGroup % parts);
    const Vec weightScale = loadScales(panel + matrix.scaleOffset, matrix.scaleF16, size_t(scaleGroup));
    const int32_t* product = dots[scaleGroup % 2];
#pragma GCC unroll 16
    for (int r = 0; r < tileRows; r++) {
      const Vec dot = {_mm512_cvtepi32_ps(_mm512_load_si512(product + r * panelColumns))};
      total[r] = addGroup(total[r], dot, factor, sums[size_t(r) * sumStride + sumAt], weightScale,
                          scales[size_t(r) * scaleStride + g]);
    }
    if (!matrix.hasMinimum) continue;
    const Vec minimum = loadScales(panel + matrix.minimumOffset, matrix.scaleF16, size_t(scaleGroup));
#pragma GCC unroll 16
    for (int r = 0; r < tileRows; r++) {
      total[r] = addMinimum(total[r], minimum, sums[size_t(r) * sumStride + sumAt], scales[size_t(r) * scaleStride + g]);
    }
  }
  const int column = panelIndex * panelColumns;
  for (int r = 0; r < tileRows; r++) {
    storeColumns(total[r], bias ? bias + column : nullptr, out + size_t(firstRow + r) * outStride + column,
                 matrix.outputs - column);
  }
}

template <Encoding encoding, int scaleInputs>
void multiplyOnTiles(const PackedMatrix& matrix, const Activations& x, int firstPanel, int endPanel, const float* bias,
                     float* out, size_t outStride) {
  const int tiled = x.rows / tileRows * tileRows;
  if (tiled > 0) {
    configureTiles<scaleInputs>();
    for (int panel = firstPanel; panel < endPanel; panel++) {
      for (int row = 0; row < tiled; row += tileRows) {
        multiplySixteen<encoding, scaleInputs>(matrix, x, row, panel, bias, out, outStride);
      }
    }
    _tile_release();
  }
  if (tiled == x.rows) return;
  Activations rest = x;
  rest.rows = x.rows - tiled;
  rest.codes += size_t(tiled) * x.codeStride;
  rest.scales += size_t(tiled) * (x.codeStride / groupInputs);
  rest.sums += size_t(tiled) * (x.codeStride / groupInputs) * groupSums;
  multiplyPanels<encoding, scaleInputs>(matrix, rest, firstPanel, endPanel, bias, out + size_t(tiled) * outStride,
                                        outStride);
}

void multiplyAmx(const PackedMatrix& matrix, const Activations& x, int firstPanel, int endPanel, const float* bias,
                 float* out, size_t outStride) {
  const bool fine = matrix.scaleInputs == 16;
  switch (matrix.encoding) {
    case Encoding::Byte:
      return fine ? multiplyOnTiles<Encoding::Byte, 16>(matrix, x, firstPanel, endPanel, bias, out, outStride)
                  : multiplyOnTiles<Encoding::Byte, 32>(matrix, x, firstPanel, endPanel, bias, out, outStride);
    case Encoding::Nibble:
      return fine ? multiplyOnTiles<Encoding::Nibble, 16>(matrix, x, firstPanel, endPanel, bias, out, outStride)
                  : multiplyOnTiles<Encoding::Nibble, 32>(matrix, x, firstPanel, endPanel, bias, out, outStride);
    case Encoding::Codebook:
      return multiplyOnTiles<Encoding::Codebook, 32>(matrix, x, firstPanel, endPanel, bias, out, outStride);
    default: return multiply(matrix, x, firstPanel, endPanel, bias, out, outStride);
  }
}

}  // namespace
