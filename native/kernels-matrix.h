// Matrix products over packed panels. One lane is one output column; the sum over inputs runs in one fixed
// order whatever the number of rows, so a row's result never depends on its neighbours.
// Include after the ISA's vec-*.h and codes-*.h.
#pragma once

#include "kernels.h"

namespace {

using namespace chairlift;

// A group's 32 inputs as eight Codes of 16 columns x 4 inputs.
constexpr int codesPerGroup = groupInputs / 4;

// How far ahead of their use codes are asked for. The panels of a matrix lie one behind the other, so this also
// warms the next panel's start.
constexpr int prefetchBytes = 4096;

template <Encoding encoding>
inline void prefetchGroup(const uint8_t* from) {
  constexpr int bytes = encoding == Encoding::Byte ? 512 : 256;
  for (int line = 0; line < bytes; line += 64) __builtin_prefetch(from + prefetchBytes + line);
}

template <Encoding encoding>
inline const uint8_t* loadGroup(const uint8_t* from, Codes (&codes)[codesPerGroup]) {
  if constexpr (encoding == Encoding::Byte) {
    for (int q = 0; q < 8; q++) codes[q] = loadBytes(from + q * 64);
    return from + 8 * 64;
  } else {
    for (int q = 0; q < 4; q++) {
      loadNibbles(from + q * 64, codes[q], codes[q + 4]);
      if constexpr (encoding == Encoding::Codebook) {
        codes[q] = lookUp(codes[q]);
        codes[q + 4] = lookUp(codes[q + 4]);
      }
    }
    return from + 4 * 64;
  }
}

inline Vec loadScales(const uint8_t* from, bool half, size_t group) {
  return half ? Vec::loadF16((const uint16_t*)from + group * panelColumns)
              : Vec::load((const float*)from + group * panelColumns);
}

/**
 * Adds one scale group to a row's total: scale * (dot + factor * sum) and, where there is one, minimum * sum.
 * `factor` turns the dot product of codes into that of `code - zero`. Dot, sum and their combination are integers
 * below 2^24, so the float arithmetic up to the scale is exact, in whatever form an ISA holds the codes.
 */
inline Vec addGroup(Vec total, Vec dot, Vec factor, float sum, Vec weightScale, float inputScale) {
  return fma(fma(factor, Vec::set(sum), dot), weightScale * Vec::set(inputScale), total);
}

inline Vec addMinimum(Vec total, Vec minimum, float sum, float inputScale) {
  return fma(minimum, Vec::set(inputScale * sum), total);
}

/** Which of a group's sums goes with a scale: that of the whole, or that of its half. */
template <int scaleInputs>
inline size_t sumIndex(int part) {
  return scaleInputs == groupInputs ? 2 : size_t(part);
}

/** Accumulates `rows` rows against one panel of a quantized matrix. */
template <Encoding encoding, int scaleInputs, int rows>
inline void multiplyCodes(const PackedMatrix& matrix, const uint8_t* panel, const Activations& x, int firstRow,
                          Vec (&total)[rows]) {
  constexpr int parts = groupInputs / scaleInputs;
  constexpr int codesPerPart = codesPerGroup / parts;
  const int groups = matrix.inputs / groupInputs;
  const Vec factor = Vec::set(float(codeSumFactor(encoding, matrix.zero)));
  const size_t scaleStride = x.codeStride / groupInputs, sumStride = scaleStride * groupSums;
  const int8_t* inputs = x.codes + size_t(firstRow) * x.codeStride;
  const float* scales = x.scales + size_t(firstRow) * scaleStride;
  const float* sums = x.sums + size_t(firstRow) * sumStride;
  const uint8_t* codesAt = panel;

  for (int g = 0; g < groups; g++) {
    Codes codes[codesPerGroup];
    prefetchGroup<encoding>(codesAt);
    codesAt = loadGroup<encoding>(codesAt, codes);
    for (int part = 0; part < parts; part++) {
      Sums dots[rows];
      for (int r = 0; r < rows; r++) dots[r] = Sums::zero();
      for (int q = part * codesPerPart; q < (part + 1) * codesPerPart; q++) {
        for (int r = 0; r < rows; r++) {
          dots[r] = addDot<encoding>(dots[r], codes[q], inputs + size_t(r) * x.codeStride + g * 32 + q * 4);
        }
      }
      const size_t scaleGroup = size_t(g) * parts + size_t(part);
      const Vec weightScale = loadScales(panel + matrix.scaleOffset, matrix.scaleF16, scaleGroup);
      for (int r = 0; r < rows; r++) {
        const float sum = sums[size_t(r) * sumStride + size_t(g) * groupSums + sumIndex<scaleInputs>(part)];
        total[r] = addGroup(total[r], toVec(dots[r]), factor, sum, weightScale, scales[size_t(r) * scaleStride + size_t(g)]);
      }
      if (!matrix.hasMinimum) continue;
      const Vec minimum = loadScales(panel + matrix.minimumOffset, matrix.scaleF16, scaleGroup);
      for (int r = 0; r < rows; r++) {
        const float sum = sums[size_t(r) * sumStride + size_t(g) * groupSums + sumIndex<scaleInputs>(part)];
        total[r] = addMinimum(total[r], minimum, sum, scales[size_t(r) * scaleStride + size_t(g)]);
      }
    }
  }
}

template <Encoding encoding, int rows>
inline void multiplyFloats(const PackedMatrix& matrix, const uint8_t* panel, const Activations& x, int firstRow,
                           Vec (&total)[rows]) {
  const float* inputs = x.values + size_t(firstRow) * x.valueStride;
  for (int k = 0; k < matrix.inputs; k++) {
    Vec weights;
    if constexpr (encoding == Encoding::F32) weights = Vec::load((const float*)panel + k * panelColumns);
    else if constexpr (encoding == Encoding::F16) weights = Vec::loadF16((const uint16_t*)panel + k * panelColumns);
    else weights = Vec::loadBf16((const uint16_t*)panel + k * panelColumns);
    for (int r = 0; r < rows; r++) {
      total[r] = fma(Vec::set(inputs[size_t(r) * x.valueStride + size_t(k)]), weights, total[r]);
    }
  }
}

inline void storeColumns(Vec value, const float* bias, float* to, int columns) {
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
  for (Vec& row : total) row = Vec::zero();
  const uint8_t* data = matrix.panels + size_t(panel) * matrix.panelBytes;
  if constexpr (scaleInputs == 0) multiplyFloats<encoding, rows>(matrix, data, x, firstRow, total);
  else multiplyCodes<encoding, scaleInputs, rows>(matrix, data, x, firstRow, total);
  const int column = panel * panelColumns;
  for (int r = 0; r < rows; r++) {
    storeColumns(total[r], bias ? bias + column : nullptr, out + size_t(firstRow + r) * outStride + column,
                 matrix.outputs - column);
  }
}

/** Takes rows in tiles of `rowTile`, the rest in ever smaller ones, panel by panel so that a panel stays cached. */
template <Encoding encoding, int scaleInputs>
void multiplyPanels(const PackedMatrix& matrix, const Activations& x, int firstPanel, int endPanel,
                    const float* bias, float* out, size_t outStride) {
  for (int panel = firstPanel; panel < endPanel; panel++) {
    int row = 0;
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
  using Multiply = void (*)(const PackedMatrix&, const Activations&, int, int, const float*, float*, size_t);
  const bool fine = matrix.scaleInputs == 16;
  Multiply run = nullptr;
  switch (matrix.encoding) {
    case Encoding::F32: run = multiplyPanels<Encoding::F32, 0>; break;
    case Encoding::F16: run = multiplyPanels<Encoding::F16, 0>; break;
    case Encoding::BF16: run = multiplyPanels<Encoding::BF16, 0>; break;
    case Encoding::Byte:
      run = fine ? multiplyPanels<Encoding::Byte, 16> : multiplyPanels<Encoding::Byte, 32>;
      break;
    case Encoding::Nibble:
      run = fine ? multiplyPanels<Encoding::Nibble, 16> : multiplyPanels<Encoding::Nibble, 32>;
      break;
    case Encoding::Codebook: run = multiplyPanels<Encoding::Codebook, 32>; break;
  }
  run(matrix, x, firstPanel, endPanel, bias, out, outStride);
}

}  // namespace
