// Integer codes in plain C++: 16 columns x 4 inputs a piece, summed exactly.
#pragma once

#include "codebook.h"
#include "kernels.h"

namespace {

constexpr int rowTile = 1;

struct Codes {
  int16_t code[64];
};

struct Sums {
  int32_t lane[16];
  static Sums zero() { return {}; }
};

inline Codes loadBytes(const uint8_t* from) {
  Codes c;
  for (int i = 0; i < 64; i++) c.code[i] = from[i];
  return c;
}

inline void loadNibbles(const uint8_t* from, Codes& low, Codes& high) {
  for (int i = 0; i < 64; i++) {
    low.code[i] = from[i] & 15;
    high.code[i] = from[i] >> 4;
  }
}

inline Codes lookUp(Codes c) {
  for (int16_t& code : c.code) code = codebook[code];
  return c;
}

/** What each input counts beside its code: a weight's integer part is `code - zero`. */
inline int32_t codeSumFactor(chairlift::Encoding, int32_t zero) { return -zero; }

template <chairlift::Encoding>
inline Sums addDot(Sums sums, const Codes& codes, const int8_t* inputs) {
  for (int column = 0; column < 16; column++) {
    for (int i = 0; i < 4; i++) sums.lane[column] += codes.code[column * 4 + i] * inputs[i];
  }
  return sums;
}

inline Vec toVec(const Sums& sums) {
  Vec v;
  for (int i = 0; i < 16; i++) v.lane[i] = float(sums.lane[i]);
  return v;
}

}  // namespace
