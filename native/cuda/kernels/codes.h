// How the codes and scales of a matrix are read: see MatrixView. A format is a type, so that what it does not need costs nothing.
// Include after vec-lane.h.
#pragma once

#include "cuda/kernels/args.h"

namespace {

constexpr int codeF32 = 0, codeF16 = 1, codeBf16 = 2, codeF8 = 3, codeByte = 4, codeUnsignedByte = 5, codeNibble = 6,
              codeUnsignedNibble = 7, codeCodebook = 8;
constexpr int scaleF16 = 0, scaleBf16 = 1, scaleF32 = 2, scaleSuper = 3, scalePower = 4;

CHAIRLIFT_DEVICE float brainToFloat(uint32_t bits) { return asFloat(bits << 16); }
/** 2^(power - 127) for powers up to 254; the one of 0 is subnormal. */
CHAIRLIFT_DEVICE float powerOf(uint32_t power) { return asFloat(power == 0 ? 0x00400000u : power << 23); }

/** Exact, and without a conversion, of which few units are capable. */
CHAIRLIFT_DEVICE float signedByteToFloat(uint32_t byte) { return asFloat(0x4b000000u | (byte ^ 0x80u)) - 8388736.0f; }

CHAIRLIFT_DEVICE int bytesOfScale(int scaleType) {
  return scaleType == scaleF32 ? 4 : scaleType == scaleSuper || scaleType == scalePower ? 1 : 2;
}

CHAIRLIFT_DEVICE bool isBytes(int encoding) { return encoding == codeByte || encoding == codeUnsignedByte; }

/** Where the scale of an output of a panel lies among its scales. */
CHAIRLIFT_DEVICE int scalePlace(int scaleGroup, int column) {
  return (scaleGroup / 4 * 8 + column % 8) * 8 + scaleGroup % 4 * 2 + column / 8;
}

CHAIRLIFT_DEVICE float readScale(const MatrixView& matrix, const uint8_t* from, const uint8_t* supers, int scaleGroup,
                                 int column, bool isMinimum) {
  const int at = scalePlace(scaleGroup, column);
  switch (matrix.scaleType) {
    case scaleF16: return halfToFloat(((const uint16_t*)from)[at]);
    case scaleBf16: return brainToFloat(((const uint16_t*)from)[at]);
    case scaleF32: return ((const float*)from)[at];
    case scalePower: return powerOf(from[at]);
    default: {
      const int perSuper = 8 * inputsOfGroup / matrix.scaleInputs, each = matrix.hasMinimum ? 4 : 2;
      const int place = (scaleGroup / perSuper * 8 + column % 8) * each + (isMinimum ? 2 : 0) + column / 8;
      return float(((const int8_t*)from)[at]) * halfToFloat(((const uint16_t*)supers)[place]);
    }
  }
}

/** The value of a code of a quantized matrix. */
CHAIRLIFT_DEVICE int readCode(const MatrixView& matrix, const uint8_t* codes, int group, int column, int i) {
  const int lane = column % 8 * 4 + i % 16 / 4, upper = i / 16, byte = i % 4;
  if (isBytes(matrix.encoding)) {
    const uint8_t code = codes[(group * 32 + lane) * 16 + upper * 8 + column / 8 * 4 + byte];
    return matrix.encoding == codeByte ? int(int8_t(code)) : int(code);
  }
  const int64_t at = int64_t(group / 2 * 32 + lane) * 16 + group % 2 * 8 + column / 8 * 4;
  if (matrix.encoding == codeCodebook) {
    const int index = codes[at + upper * 2 + byte / 2] >> (byte % 2 * 4) & 15;
    return int(int8_t(matrix.codebook[index / 4] >> (index % 4 * 8)));
  }
  const int nibble = codes[at + byte] >> (upper * 4) & 15;
  return matrix.encoding == codeNibble && nibble > 7 ? nibble - 16 : nibble;
}

}  // namespace
