// Integer codes in plain C++: 16 columns x 4 inputs a piece, summed exactly.
#pragma once

#include "kernels/kernels.h"

namespace {

using chairlift::Codebook;
using chairlift::Encoding;

constexpr int rowTile = 1;

struct Codes {
  int16_t value[64];
};

struct Sums {
  int32_t lane[16];
};

/** Four inputs in every lane, where that is worth a register. */
inline const int8_t* spread(const int8_t* inputs) { return inputs; }

/** The values of 64 bytes of codes. */
template <Encoding encoding>
inline Codes loadBytes(const uint8_t* from) {
  Codes c;
  for (int i = 0; i < 64; i++) c.value[i] = encoding == Encoding::Byte ? int16_t(int8_t(from[i])) : int16_t(from[i]);
  return c;
}

template <Encoding encoding>
inline int16_t nibbleValue(const Codebook* codebook, int nibble) {
  if (encoding == Encoding::Codebook) return codebook->values[nibble];
  return int16_t(encoding == Encoding::Nibble ? (nibble - 8) * 16 : nibble);
}

/** The values of the low and the high halves of 64 bytes; those of Encoding::Nibble sixteenfold. */
template <Encoding encoding>
inline void loadNibbles(const Codebook* codebook, const uint8_t* from, Codes& low, Codes& high) {
  for (int i = 0; i < 64; i++) {
    low.value[i] = nibbleValue<encoding>(codebook, from[i] & 15);
    high.value[i] = nibbleValue<encoding>(codebook, from[i] >> 4);
  }
}

/** Sums to which `addDot` adds; `offset` is -128 times the sum of all inputs. */
template <Encoding>
inline Sums startDot(const int32_t*) {
  return {};
}

template <Encoding>
inline Sums addDot(Sums sums, const Codes& codes, const int8_t* inputs) {
  for (int column = 0; column < 16; column++) {
    for (int i = 0; i < 4; i++) sums.lane[column] += codes.value[column * 4 + i] * inputs[i];
  }
  return sums;
}

/** Exact: integers below 2^24. */
template <Encoding>
inline Vec finishDot(const Sums& sums, const int32_t*) {
  Vec v;
  for (int i = 0; i < 16; i++) v.lane[i] = float(sums.lane[i]);
  return v;
}

}  // namespace
