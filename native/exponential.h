// e^x and ln x in double, from the same operations in the same order as src/engine/sampling/exponential.ts:
// both samplers must give the same bits.
#pragma once

#include <cstdint>
#include <cstring>

namespace chairlift {

constexpr double ln2Upper = 0.6931471803691238, ln2Lower = 1.9082149292705877e-10;

/** Where e^x counts as 0: below 2^-1010. Inputs are held at a lower one, so that all numbers stay normal. */
constexpr double lowestInput = -701, lowestPower = -1010;

/** e^x for x <= 0. Free of branches, so that loops over it become vector code. */
__attribute__((always_inline)) inline double exponential(double x) {
  constexpr double log2e = 1.4426950408889634, rounder = 6755399441055744;
  const double clamped = x > lowestInput ? x : lowestInput;
  const double shifted = clamped * log2e + rounder;
  const double n = shifted - rounder;
  const double rest = clamped - n * ln2Upper - n * ln2Lower;
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
  // The lowest bits of `shifted` are n; adding it to the exponent's bits multiplies by 2^n exactly.
  uint64_t bits, exponent;
  memcpy(&bits, &power, sizeof bits);
  memcpy(&exponent, &shifted, sizeof exponent);
  bits += exponent << 52;
  // A mask rather than a choice: compilers make a branch of the latter.
  bits &= -uint64_t(n >= lowestPower);
  memcpy(&power, &bits, sizeof power);
  return power;
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
