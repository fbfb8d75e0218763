// Functions of a Vec, from its operators alone: the same bits on every ISA.
// Include after the ISA's vec-*.h.
#pragma once

// A GPU's compiler wants more than `inline`.
#ifndef CHAIRLIFT_MATH
#define CHAIRLIFT_MATH inline
#endif

namespace {

/** e^x to about one unit in the last place; inputs beyond float32's range are clamped to it, NaN stays NaN. */
CHAIRLIFT_MATH Vec exponential(Vec x) {
  // The operand order matters: min and max return the second operand where one is NaN.
  x = max(Vec::set(-87.0f), min(Vec::set(88.0f), x));
  const Vec n = round(x * Vec::set(1.44269504f));
  // x - n ln2, with ln2 in two parts so that the first product is exact.
  Vec r = fma(n, Vec::set(-0.693359375f), x);
  r = fma(n, Vec::set(2.12194440e-4f), r);
  Vec p = Vec::set(1.9875691500e-4f);
  p = fma(p, r, Vec::set(1.3981999507e-3f));
  p = fma(p, r, Vec::set(8.3334519073e-3f));
  p = fma(p, r, Vec::set(4.1665795894e-2f));
  p = fma(p, r, Vec::set(1.6666665459e-1f));
  p = fma(p, r, Vec::set(5.0000001201e-1f));
  p = fma(p, r * r, r) + Vec::set(1.0f);
  return p * powerOfTwo(n);
}

CHAIRLIFT_MATH Vec sigmoid(Vec x) {
  const Vec one = Vec::set(1.0f);
  return one / (one + exponential(Vec::zero() - x));
}

CHAIRLIFT_MATH Vec silu(Vec x) { return x * sigmoid(x); }

/** The tanh form of GELU: 0.5 x (1 + tanh u) is x sigmoid(2u). */
CHAIRLIFT_MATH Vec geluTanh(Vec x) {
  const Vec cubic = fma(x * x * x, Vec::set(0.044715f), x);
  return x * sigmoid(cubic * Vec::set(1.5957691216f));
}

/** log(1 + x) for x within 0 and 1: 2 artanh(x / (2 + x)), by its series. */
CHAIRLIFT_MATH Vec logarithmOfMore(Vec x) {
  const Vec z = x / (x + Vec::set(2.0f));
  const Vec squared = z * z;
  Vec p = Vec::set(2.0f / 13);
  p = fma(p, squared, Vec::set(2.0f / 11));
  p = fma(p, squared, Vec::set(2.0f / 9));
  p = fma(p, squared, Vec::set(2.0f / 7));
  p = fma(p, squared, Vec::set(2.0f / 5));
  p = fma(p, squared, Vec::set(2.0f / 3));
  p = fma(p, squared, Vec::set(2.0f));
  return p * z;
}

/** log(1 + e^x). */
CHAIRLIFT_MATH Vec softplus(Vec x) {
  const Vec none = Vec::zero();
  const Vec size = max(x, none - x);
  // The operand order matters: NaN stays NaN.
  return max(none, x) + logarithmOfMore(exponential(none - size));
}

/**
 * x Φ(x), to a few units in the last place of max(x, 1): max(x, 0) - |x| Φ(-|x|). A polynomial in 1 / (1 + 0.3 |x|), fitted for
 * the least relative error, gives what is left of Φ(-|x|) without e^(-x²/2).
 */
CHAIRLIFT_MATH Vec gelu(Vec x) {
  const Vec one = Vec::set(1.0f), none = Vec::zero();
  // Beyond, it is 0.
  const Vec size = min(Vec::set(14.0f), max(none - x, x));
  const Vec t = one / fma(size, Vec::set(0.3f), one);
  Vec p = Vec::set(0.0356747694f);
  p = fma(p, t, Vec::set(-0.157203019f));
  p = fma(p, t, Vec::set(0.206353337f));
  p = fma(p, t, Vec::set(-0.0536834188f));
  p = fma(p, t, Vec::set(0.128561467f));
  p = fma(p, t, Vec::set(0.0999135524f));
  p = fma(p, t, Vec::set(0.120753944f));
  p = fma(p, t, Vec::set(0.119629301f));
  const Vec beyond = p * t * exponential(size * size * Vec::set(-0.5f));
  return max(none, x) - size * beyond;
}

CHAIRLIFT_MATH Vec clamped(Vec x, Vec up, float limit, float slope) {
  // The operand order matters: NaN stays NaN.
  const Vec most = Vec::set(limit), least = Vec::set(-limit);
  const Vec held = min(most, x), factor = max(least, min(most, up)) + Vec::set(1.0f);
  return held * sigmoid(held * Vec::set(slope)) * factor;
}

CHAIRLIFT_MATH Vec hyperbolicTangent(Vec x) {
  const Vec one = Vec::set(1.0f);
  return one - Vec::set(2.0f) / (exponential(x + x) + one);
}

CHAIRLIFT_MATH Vec softcap(Vec x, float cap) {
  return Vec::set(cap) * hyperbolicTangent(x / Vec::set(cap));
}

}  // namespace
