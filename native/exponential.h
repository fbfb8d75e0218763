// e^x and ln x in double, from the same operations in the same order as src/engine/sampling/exponential.ts:
// both samplers must give the same bits.
#pragma once

#include <cstdint>
#include <cstring>

namespace chairlift {

constexpr double ln2Upper = 0.6931471803691238, ln2Lower = 1.9082149292705877e-10;

/** The bits of a value, as a number. */
__attribute__((always_inline)) inline int64_t bitsOf(double value) {
  int64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

/** The value, or 0 if `test` is negative. Bits decide, because compilers make branches of choices between floats. */
__attribute__((always_inline)) inline double unlessNegative(int64_t test, double value) {
  const uint64_t bits = uint64_t(bitsOf(value)) & ((uint64_t(test) >> 63) - 1);
  memcpy(&value, &bits, sizeof value);
  return value;
}

/** e^x for x <= 0; 0 below 2^-1010. Loops over it become vector code. */
__attribute__((always_inline)) inline double exponential(double x) {
  constexpr double log2e = 1.4426950408889634, rounder = 6755399441055744;
  const double shifted = x * log2e + rounder;
  const double n = shifted - rounder;
  const double rest = x - n * ln2Upper - n * ln2Lower;
  double power = 1.0 / 479001600;
  power = power * rest + 1.0 / 39916800;
  power = power * rest + 1.0 / 3628800;
  power = power * rest + 1.0 / 362880;
  power = power * rest + 1.0 / 40320;
  power = power * rest + 1.0 / 5040;
  power = power * rest + 1.0 / 720;
  power = power * rest + 1.0 / 120;
  power = power * rest + 1.0 / 24;
  power = power * rest + 1.0 / 6;
  power = power * rest + 1.0 / 2;
  power = power * rest + 1.0;
  power = power * rest + 1.0;
  // The bits of `shifted` are those of `rounder` plus n; n added to the exponent's bits multiplies by 2^n.
  const uint64_t rounderBits = 0x4338000000000000, shiftedBits = uint64_t(bitsOf(shifted));
  const uint64_t scaledBits = uint64_t(bitsOf(power)) + (shiftedBits << 52);
  memcpy(&power, &scaledBits, sizeof power);
  // Negative where `shifted` is, or where n is below -1010.
  return unlessNegative(int64_t(shiftedBits | (shiftedBits - (rounderBits - 1010))), power);
}

/** ln x for x >= 1. */
inline double naturalLogarithm(double x) {
  int exponent = 0;
  for (; x > 1.4142135623730951; exponent++) x *= 0.5;
  const double s = (x - 1) / (x + 1), square = s * s;
  double series = 0;
  for (int odd = 23; odd >= 3; odd -= 2) series = (series + 1.0 / odd) * square;
  return exponent * ln2Upper + (2 * s + (2 * s * series + exponent * ln2Lower));
}

}  // namespace chairlift
