// Weights of tokens and ln x, from the same operations in the same order as src/sampling/exponential.ts:
// both samplers must give the same bits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace chairlift {

/** A number's bits as another type of the same size. */
template <class To, class From>
__attribute__((always_inline)) inline To bitsAs(From from) {
  static_assert(sizeof(To) == sizeof(From), "bits are neither dropped nor made up");
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

/** How logits become weights: 2^(scaled + unitBits), rounded, with scaled = (logit - highest) x slope. */
struct Weighing {
  float highest;
  /** log2(e) / temperature. */
  float slope;
  int unitBits;

  Weighing() = default;
  Weighing(float highestLogit, double temperature, int vocabSize)
      : highest(highestLogit),
        slope(float(1.4426950408889634 / temperature)),
        // The weights of a whole vocabulary sum up to at most 2^53, so every sum of them is exact.
        unitBits(std::min(40, 21 + (vocabSize > 1 ? __builtin_clz(unsigned(vocabSize - 1)) : 32))) {}

  /** What is scaled below this weighs nothing. */
  float leastScaled() const { return float(-unitBits - 1); }
};

__attribute__((always_inline)) inline float scaledLogit(float logit, const Weighing& weighing) {
  return (logit - weighing.highest) * weighing.slope;
}

// Adding 1.5 x 2^52 rounds a double to a whole number, which the lowest bits then hold; 1.5 x 2^23 a float.
constexpr double doubleRounder = 6755399441055744;
constexpr uint64_t doubleRounderBits = 0x4338000000000000;
constexpr float floatRounder = 12582912;
constexpr uint32_t floatRounderBits = 0x4b400000;

/** The weight before rounding, or 0 where `scaled` is below `least`, which is `leastScaled` or above. */
__attribute__((always_inline)) inline float roughWeight(float scaled, int unitBits, float least) {
  const float shifted = scaled + floatRounder;
  const float rest = scaled - (shifted - floatRounder);
  float power = 0.001326472731307149f;
  power = power * rest + 0.009671512991189957f;
  power = power * rest + 0.05550733581185341f;
  power = power * rest + 0.24022242426872253f;
  power = power * rest + 0.6931470036506653f;
  power = power * rest + 1.0f;
  // Added to the exponent's bits, a whole number multiplies by that power of two.
  const uint32_t exponent = bitsAs<uint32_t>(shifted) + uint32_t(unitBits);
  const uint32_t bits = bitsAs<uint32_t>(power) + (exponent << 23);
  // Bits decide, because compilers make branches of choices between floats.
  return bitsAs<float>(bits & (scaled >= least ? ~0u : 0u));
}

/** ln x for x >= 1. */
inline double naturalLogarithm(double x) {
  constexpr double ln2Upper = 0.6931471803691238, ln2Lower = 1.9082149292705877e-10;
  int exponent = 0;
  for (; x > 1.4142135623730951; exponent++) x *= 0.5;
  const double s = (x - 1) / (x + 1), square = s * s;
  double series = 0;
  for (int odd = 23; odd >= 3; odd -= 2) series = (series + 1.0 / odd) * square;
  return exponent * ln2Upper + (2 * s + (2 * s * series + exponent * ln2Lower));
}

}  // namespace chairlift
