// Sixteen floats in plain C++: the oracle that the vector versions must equal bit for bit.
#pragma once

#include <cmath>

#include "kernels/float-bits.h"

namespace {

// Vectors of values that attention sums at a time, for four queries each, as registers allow.
constexpr int weighedSlices = 1;
// Queries whose scores are computed at a time.
constexpr int scoredQueries = 1;
// Rows and panels that a product with floats takes at a time, for the same reasons.
constexpr int floatRows = 1, floatPanels = 1;

struct Vec {
  float lane[16];

  static Vec zero() { return set(0.0f); }
  static Vec set(float value) {
    Vec v;
    for (float& lane : v.lane) lane = value;
    return v;
  }
  static Vec load(const float* from) {
    Vec v;
    memcpy(v.lane, from, sizeof v.lane);
    return v;
  }
  static Vec loadF16(const uint16_t* from) {
    Vec v;
    for (int i = 0; i < 16; i++) v.lane[i] = f16ToFloat(from[i]);
    return v;
  }
  static Vec loadBf16(const uint16_t* from) {
    Vec v;
    for (int i = 0; i < 16; i++) v.lane[i] = bf16ToFloat(from[i]);
    return v;
  }
  /** Floats of eight bits, a 256th of each. */
  static Vec loadF8(const uint8_t* from) {
    Vec v;
    for (int i = 0; i < 16; i++) v.lane[i] = f16ToFloat(f8ToHalf(from[i]));
    return v;
  }
  static Vec loadI8(const int8_t* from) {
    Vec v;
    for (int i = 0; i < 16; i++) v.lane[i] = float(from[i]);
    return v;
  }
  static Vec loadPowers(const uint8_t* from) {
    Vec v;
    for (int i = 0; i < 16; i++) v.lane[i] = powerToFloat(from[i]);
    return v;
  }
  void store(float* to) const { memcpy(to, lane, sizeof lane); }
  /** Rounds to nearest even; lanes must fit into a signed byte. */
  void storeI8(int8_t* to) const {
    for (int i = 0; i < 16; i++) to[i] = int8_t(nearbyintf(lane[i]));
  }
  void storeF16(uint16_t* to) const {
    for (int i = 0; i < 16; i++) to[i] = floatToF16(lane[i]);
  }
  static int32_t sumI8(const int8_t* from) {
    int32_t sum = 0;
    for (int i = 0; i < 16; i++) sum += from[i];
    return sum;
  }
};

template <class Op>
inline Vec lanewise(Op op) {
  Vec v;
  for (int i = 0; i < 16; i++) v.lane[i] = op(i);
  return v;
}

inline Vec operator+(Vec a, Vec b) {
  return lanewise([&](int i) { return a.lane[i] + b.lane[i]; });
}
inline Vec operator-(Vec a, Vec b) {
  return lanewise([&](int i) { return a.lane[i] - b.lane[i]; });
}
inline Vec operator*(Vec a, Vec b) {
  return lanewise([&](int i) { return a.lane[i] * b.lane[i]; });
}
inline Vec operator/(Vec a, Vec b) {
  return lanewise([&](int i) { return a.lane[i] / b.lane[i]; });
}
/** a * b + c, rounded once. */
inline Vec fma(Vec a, Vec b, Vec c) {
  return lanewise([&](int i) { return std::fma(a.lane[i], b.lane[i], c.lane[i]); });
}
// As the x86 instructions: the second operand where the comparison is false.
inline Vec max(Vec a, Vec b) {
  return lanewise([&](int i) { return a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]; });
}
inline Vec min(Vec a, Vec b) {
  return lanewise([&](int i) { return a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]; });
}
inline Vec round(Vec a) {
  return lanewise([&](int i) { return nearbyintf(a.lane[i]); });
}
/** 2^a for whole a in [-126, 127]. */
inline Vec powerOfTwo(Vec a) {
  return lanewise([&](int i) { return bitsToFloat(uint32_t(int32_t(a.lane[i]) + 127) << 23); });
}
/** Lanes from `first` up to but excluding `end` of a, the others of b. */
inline Vec select(int first, int end, Vec a, Vec b) {
  return lanewise([&](int i) { return i >= first && i < end ? a.lane[i] : b.lane[i]; });
}
// Reductions fold halves onto each other: lane i with i+8, then i+4, i+2, i+1. Every ISA keeps this order.
inline float sum(Vec a) {
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; i++) a.lane[i] = a.lane[i] + a.lane[i + half];
  return a.lane[0];
}
inline float maximum(Vec a) {
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; i++)
      a.lane[i] = a.lane[i] > a.lane[i + half] ? a.lane[i] : a.lane[i + half];
  return a.lane[0];
}

/** Lane by lane, infinity and NaN above all: compared as bits, the order of magnitudes is that of numbers. */
inline Vec largerMagnitudes(Vec a, Vec b) {
  return lanewise([&](int i) {
    const uint32_t x = floatToBits(a.lane[i]) & 0x7fffffffu, y = floatToBits(b.lane[i]) & 0x7fffffffu;
    return bitsToFloat(x > y ? x : y);
  });
}

/** Of 32. */
inline float largestMagnitude(Vec a, Vec b) {
  const Vec larger = largerMagnitudes(a, b);
  uint32_t largest = 0;
  for (int i = 0; i < 16; i++) {
    const uint32_t x = floatToBits(larger.lane[i]);
    if (x > largest) largest = x;
  }
  return bitsToFloat(largest);
}

}  // namespace
