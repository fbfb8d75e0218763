// One lane of the sixteen that the processor's vectors have, so that vec-math.h serves kernels of a GPU too: a thread is a lane.
#pragma once

#include "cuda/kernels/portable.h"

#undef CHAIRLIFT_MATH
#define CHAIRLIFT_MATH CHAIRLIFT_DEVICE

namespace {

using namespace chairlift::cuda;

struct Vec {
  float lane;

  static CHAIRLIFT_METHOD Vec zero() { return {0.0f}; }
  static CHAIRLIFT_METHOD Vec set(float value) { return {value}; }
};

CHAIRLIFT_DEVICE Vec operator+(Vec a, Vec b) { return {a.lane + b.lane}; }
CHAIRLIFT_DEVICE Vec operator-(Vec a, Vec b) { return {a.lane - b.lane}; }
CHAIRLIFT_DEVICE Vec operator*(Vec a, Vec b) { return {a.lane * b.lane}; }
CHAIRLIFT_DEVICE Vec operator/(Vec a, Vec b) { return {divided(a.lane, b.lane)}; }
CHAIRLIFT_DEVICE Vec fma(Vec a, Vec b, Vec c) { return {fusedMultiplyAdd(a.lane, b.lane, c.lane)}; }
CHAIRLIFT_DEVICE Vec max(Vec a, Vec b) { return {a.lane > b.lane ? a.lane : b.lane}; }
CHAIRLIFT_DEVICE Vec min(Vec a, Vec b) { return {a.lane < b.lane ? a.lane : b.lane}; }
CHAIRLIFT_DEVICE Vec round(Vec a) { return {roundToEven(a.lane)}; }
/** 2^a for whole a in [-126, 127]. */
CHAIRLIFT_DEVICE Vec powerOfTwo(Vec a) { return {asFloat(uint32_t(int32_t(a.lane) + 127) << 23)}; }

/** The sum of 16 neighbouring lanes, in the order of the processor's `sum`: halves are folded onto each other. */
CHAIRLIFT_DEVICE float sumOf16(float value) {
  for (int half = 8; half > 0; half /= 2) value = value + shuffleXor(value, half);
  return value;
}
/** The largest of 32 lanes; NaN as the processor's `maximum` has it where no lane is one. */
CHAIRLIFT_DEVICE float largestOf32(float value) {
  for (int half = 16; half > 0; half /= 2) {
    const float other = shuffleXor(value, half);
    value = value > other ? value : other;
  }
  return value;
}

}  // namespace

#include "kernels/vec-math.h"
