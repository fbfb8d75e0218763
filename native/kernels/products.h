// Matrix products over packed panels. One lane is one output column; the sum over inputs runs in one fixed
// order whatever the number of rows, so a row's result never depends on its neighbours.
// Include after the ISA's vec-*.h and codes-*.h.
#pragma once

#include "kernels/kernels.h"
#include "kernels/repeat.h"

namespace {

using namespace chairlift;

// A group's 32 inputs as eight Codes of 16 columns x 4 inputs.
constexpr int codesPerGroup = groupInputs / 4;

// How far ahead of their use weights are asked for. Panels are read from front to back and lie one behind the other,
// so this also warms the next one's start.
constexpr int prefetchBytes = 8192;

constexpr bool isBytes(Encoding encoding) {
  return encoding == Encoding::Byte || encoding == Encoding::UnsignedByte;
}

// Lines that a group's share of a panel may touch.
template <Encoding encoding>
constexpr int groupLines = isBytes(encoding) ? 9 : 5;

/** Asks for what one group takes of a panel, its share of the scales included. */
template <Encoding encoding>
CHAIRLIFT_INLINE void prefetchGroup(const uint8_t* from) {
  // Always inlined: GCC takes a call of a function that does nothing but prefetch for one without effect.
  repeat<groupLines<encoding>>([&](int line) CHAIRLIFT_LAMBDA { __builtin_prefetch(from + prefetchBytes + line * 64); });
}

template <Encoding encoding>
CHAIRLIFT_INLINE void loadGroup(const uint8_t* from, Codes (&codes)[codesPerGroup]) {
  if constexpr (isBytes(encoding)) {
    repeat<8>([&](int q) CHAIRLIFT_LAMBDA { codes[q] = loadBytes<encoding>(from + q * 64); });
  } else {
    repeat<4>([&](int q) CHAIRLIFT_LAMBDA { loadNibbles<encoding>(from + q * 64, codes[q], codes[q + 4]); });
  }
}

/** Scales and minimums of one chunk, by scale group within it. */
struct ChunkScales {
  ScaleType type;
  const uint8_t* scales;
  const uint8_t* minimums;
  const uint16_t* supers;

  ChunkScales(const PackedMatrix& matrix, const uint8_t* chunk, int groups)
      : type(matrix.scaleType),
        scales(chunk + matrix.scalesAt(groups)),
        minimums(chunk + matrix.minimumsAt(groups)),
        supers((const uint16_t*)(chunk + matrix.supersAt(groups))) {}

  Vec scale(int scaleGroup) const { return load(scales, 0, scaleGroup); }
  // The vector kernels multiply nibbles sixteenfold; their scale takes it back, which is exact.
  template <Encoding encoding>
  Vec codeScale(int scaleGroup) const {
    return encoding == Encoding::Nibble ? scale(scaleGroup) * Vec::set(1.0f / 16) : scale(scaleGroup);
  }
  Vec minimum(int scaleGroup) const { return load(minimums, panelColumns, scaleGroup); }

 private:
  Vec load(const uint8_t* from, int super, int scaleGroup) const {
    const size_t at = size_t(scaleGroup) * panelColumns;
    if (type == ScaleType::F16) return Vec::loadF16((const uint16_t*)from + at);
    if (type == ScaleType::F32) return Vec::load((const float*)from + at);
    return Vec::loadI8((const int8_t*)from + at) * Vec::loadF16(supers + super);
  }
};

/** A scale group's share of a sum: rounded after the weights' scale, and with the sum after the inputs'. */
CHAIRLIFT_INLINE Vec addShare(Vec total, Vec dot, Vec scale, float inputScale) {
  return fma(dot * scale, Vec::set(inputScale), total);
}

/** Which of a group's sums goes with a scale: that of the whole, or that of its half. */
template <int scaleInputs>
constexpr int sumIndex(int part) {
  return scaleInputs == groupInputs ? 0 : 1 + part;
}

/**
 * Accumulates `rows` rows of a tile, from `firstRow` on, against one panel of a quantized matrix: for each scale group
 * total += dot * scale * input scale, then total += minimum * (input scale * input sum).
 */
template <Encoding encoding, int scaleInputs, int rows>
CHAIRLIFT_INLINE void multiplyCodes(const PackedMatrix& matrix, const uint8_t* panel, const int8_t* tileCodes,
                          const GroupSide* sides, int firstRow, Vec (&total)[rows]) {
  constexpr int parts = groupInputs / scaleInputs;
  constexpr int codesPerPart = codesPerGroup / parts;
  constexpr size_t codeBytes = isBytes(encoding) ? 512 : 256;
  const int8_t* inputs = tileCodes + firstRow * groupInputs;
  const uint8_t* chunk = panel;
  const size_t groupBytes = matrix.groupBytes();

  for (int c = 0; c < matrix.chunks(); c++) {
    const int groups = matrix.groupsIn(c);
    const ChunkScales scales(matrix, chunk, groups);
    for (int i = 0; i < groups; i++) {
      Codes codes[codesPerGroup];
      prefetchGroup<encoding>(chunk + size_t(i) * groupBytes);
      loadGroup<encoding>(chunk + i * codeBytes, codes);
      repeat<parts>([&](int part) CHAIRLIFT_LAMBDA {
        const int32_t* offsets = sides->offset[sumIndex<scaleInputs>(part)] + firstRow;
        Sums dots[rows];
        repeat<rows>([&](int r) CHAIRLIFT_LAMBDA { dots[r] = startDot<encoding>(offsets + r); });
        repeat<codesPerPart>([&](int q) CHAIRLIFT_LAMBDA {
          const int at = part * codesPerPart + q;
          repeat<rows>([&](int r) CHAIRLIFT_LAMBDA {
            dots[r] = addDot<encoding>(dots[r], codes[at], inputs + r * groupInputs + at * 4);
          });
        });
        const Vec scale = scales.codeScale<encoding>(i * parts + part);
        repeat<rows>([&](int r) CHAIRLIFT_LAMBDA {
          total[r] = addShare(total[r], finishDot<encoding>(dots[r], offsets + r), scale, sides->scale[firstRow + r]);
        });
        if (!matrix.hasMinimum) return;
        const Vec minimum = scales.minimum(i * parts + part);
        const float* sums = sides->sum[sumIndex<scaleInputs>(part)] + firstRow;
        repeat<rows>([&](int r) CHAIRLIFT_LAMBDA { total[r] = fma(minimum, Vec::set(sums[r]), total[r]); });
      });
      inputs += groupCodes;
      sides++;
    }
    chunk += matrix.chunkBytes(groups);
  }
}

template <Encoding encoding, int rows>
CHAIRLIFT_INLINE void multiplyFloats(const PackedMatrix& matrix, const uint8_t* panel, const Activations& x, int firstRow,
                           Vec (&total)[rows]) {
  const float* inputs = x.values + size_t(firstRow) * x.valueStride;
  for (int k = 0; k < matrix.inputs; k++) {
    Vec weights;
    if constexpr (encoding == Encoding::F32) weights = Vec::load((const float*)panel + k * panelColumns);
    else if constexpr (encoding == Encoding::F16) weights = Vec::loadF16((const uint16_t*)panel + k * panelColumns);
    else weights = Vec::loadBf16((const uint16_t*)panel + k * panelColumns);
    repeat<rows>([&](int r) CHAIRLIFT_LAMBDA {
      total[r] = fma(Vec::set(inputs[size_t(r) * x.valueStride + size_t(k)]), weights, total[r]);
    });
  }
}

CHAIRLIFT_INLINE void storeColumns(Vec value, const float* bias, float* to, int columns) {
  if (bias) value = value + Vec::load(bias);
  if (columns >= panelColumns) return value.store(to);
  float lanes[panelColumns];
  value.store(lanes);
  memcpy(to, lanes, size_t(columns) * sizeof(float));
}

template <Encoding encoding, int scaleInputs, int rows>
inline void multiplyTile(const PackedMatrix& matrix, const Activations& x, int firstRow, int panel,
                         const float* bias, float* out, size_t outStride) {
  Vec total[rows];
  repeat<rows>([&](int r) CHAIRLIFT_LAMBDA { total[r] = Vec::zero(); });
  const uint8_t* data = matrix.panels + size_t(panel) * matrix.panelBytes;
  if constexpr (scaleInputs == 0) multiplyFloats<encoding, rows>(matrix, data, x, firstRow, total);
  else {
    const size_t tile = size_t(firstRow / tileRows) * x.tileGroups;
    multiplyCodes<encoding, scaleInputs, rows>(matrix, data, x.codes + tile * groupCodes, x.sides + tile,
                                               firstRow % tileRows, total);
  }
  const int column = panel * panelColumns;
  repeat<rows>([&](int r) CHAIRLIFT_LAMBDA {
    storeColumns(total[r], bias ? bias + column : nullptr, out + size_t(firstRow + r) * outStride + column,
                 matrix.outputs - column);
  });
}

/** Takes rows from `firstRow` on in tiles of `rowTile`, the rest in ever smaller ones, panel by panel so that a panel stays cached. */
template <Encoding encoding, int scaleInputs>
void multiplyPanels(const PackedMatrix& matrix, const Activations& x, int firstRow, int firstPanel, int endPanel,
                    const float* bias, float* out, size_t outStride) {
  for (int panel = firstPanel; panel < endPanel; panel++) {
    int row = firstRow;
    for (; row + rowTile <= x.rows; row += rowTile) {
      multiplyTile<encoding, scaleInputs, rowTile>(matrix, x, row, panel, bias, out, outStride);
    }
    if constexpr (rowTile > 4) {
      if (row + 4 <= x.rows) {
        multiplyTile<encoding, scaleInputs, 4>(matrix, x, row, panel, bias, out, outStride);
        row += 4;
      }
    }
    if constexpr (rowTile > 2) {
      if (row + 2 <= x.rows) {
        multiplyTile<encoding, scaleInputs, 2>(matrix, x, row, panel, bias, out, outStride);
        row += 2;
      }
    }
    for (; row < x.rows; row++) {
      multiplyTile<encoding, scaleInputs, 1>(matrix, x, row, panel, bias, out, outStride);
    }
  }
}

void multiply(const PackedMatrix& matrix, const Activations& x, int firstPanel, int endPanel, const float* bias,
              float* out, size_t outStride) {
  using Multiply = void (*)(const PackedMatrix&, const Activations&, int, int, int, const float*, float*, size_t);
  const bool fine = matrix.scaleInputs == 16;
  Multiply run = nullptr;
  switch (matrix.encoding) {
    case Encoding::F32: run = multiplyPanels<Encoding::F32, 0>; break;
    case Encoding::F16: run = multiplyPanels<Encoding::F16, 0>; break;
    case Encoding::BF16: run = multiplyPanels<Encoding::BF16, 0>; break;
    case Encoding::Byte:
      run = fine ? multiplyPanels<Encoding::Byte, 16> : multiplyPanels<Encoding::Byte, 32>;
      break;
    case Encoding::UnsignedByte: run = multiplyPanels<Encoding::UnsignedByte, 32>; break;
    case Encoding::Nibble:
      run = fine ? multiplyPanels<Encoding::Nibble, 16> : multiplyPanels<Encoding::Nibble, 32>;
      break;
    case Encoding::UnsignedNibble:
      run = fine ? multiplyPanels<Encoding::UnsignedNibble, 16> : multiplyPanels<Encoding::UnsignedNibble, 32>;
      break;
    case Encoding::Codebook: run = multiplyPanels<Encoding::Codebook, 32>; break;
  }
  run(matrix, x, 0, firstPanel, endPanel, bias, out, outStride);
}

}  // namespace
