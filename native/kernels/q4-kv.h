// KV of four bits. Heads are rotated before they are rounded, which spreads outliers over all values and changes no score; groups of
// 32 values of a token have a scale each. A group's 32 tokens lie together, so that a byte has two values of one token:
//
//   keys    [16 tokens, twice][8 values, four times]: four bytes a token, values 0 to 3 in their low halves, 4 to 7 in their high ones
//   values  [4 tokens, eight times][16 values]: a byte a token, values 0 to 15 in the low halves, 16 to 31 in the high ones
//   scales  a half for each token, after either
//
// Include after the ISA's vec-*.h.
#pragma once

#include <initializer_list>

#include "kernels/float-bits.h"
#include "kernels/kernels.h"

namespace {

using namespace chairlift;

constexpr int zeroNibble = 8;

/** Values are rotated in runs of the largest power of two that divides the head. */
constexpr int rotatedRun(int headSize) { return headSize & -headSize; }

/** 2^-⌊n / 2⌋ for runs of 2^n, or 2^-⌈n / 2⌉: the product of both makes a rotation and its inverse of two transforms. */
inline float rotationFactor(int run, bool up) {
  float factor = 1;
  for (int left = up ? 2 * run : run; left >= 4; left /= 4) factor /= 2;
  return factor;
}

/** The Walsh-Hadamard transform of each run, times `factor`. */
inline void transformRuns(float* x, int headSize, int run, float factor) {
  for (int half = 1; half < run; half *= 2) {
    for (int first = 0; first < headSize; first += 2 * half) {
      for (int i = first; i < first + half; i++) {
        const float a = x[i], b = x[i + half];
        x[i] = a + b;
        x[i + half] = a - b;
      }
    }
  }
  for (int i = 0; i < headSize; i++) x[i] *= factor;
}

/** What is stored: rotated, and zeros up to a whole group. */
inline void rotateToStore(const float* from, int headSize, float* to) {
  const int run = rotatedRun(headSize);
  memcpy(to, from, size_t(headSize) * sizeof(float));
  transformRuns(to, headSize, run, rotationFactor(run, true));
  for (int i = headSize; i < q4Groups(headSize) * q4GroupSize; i++) to[i] = 0;
}

/** Of a query, so that its products with stored keys are those of both before; or of stored values, to what they were. */
inline void rotateBack(float* x, int headSize) {
  const int run = rotatedRun(headSize);
  transformRuns(x, headSize, run, rotationFactor(run, false));
}

struct NibbleGroup {
  // 0 to 15 for -8 to 7.
  uint8_t codes[q4GroupSize];
  uint16_t scale;
};

/** NaN becomes 7. */
inline Vec toNibbles(Vec x) { return max(min(round(x), Vec::set(zeroNibble - 1)), Vec::set(-zeroNibble)); }

/**
 * By the scale, of either sign, that leaves the least error among those by which the largest magnitude becomes about -8. NaN and
 * infinities make the scale NaN.
 */
inline NibbleGroup roundGroup(const float* x) {
  const Vec low = Vec::load(x), high = Vec::load(x + 16);
  const float largest = largestMagnitude(low, high), poison = largest - largest;
  const float most = largest < 65504 * 7 ? largest : 65504 * 7;
  NibbleGroup group;
  float leastError = 0;
  bool isFirst = true;
  for (const float steps : {8.0f, -8.0f, 8.5f, -8.5f, 7.5f, -7.5f}) {
    const uint16_t half = floatToF16(most / steps + poison);
    const float scale = f16ToFloat(half);
    const Vec inverse = Vec::set(scale == 0 ? 0.0f : 1.0f / scale);
    const Vec lowCodes = toNibbles(low * inverse), highCodes = toNibbles(high * inverse);
    const Vec down = Vec::set(-scale);
    const Vec lowError = fma(lowCodes, down, low), highError = fma(highCodes, down, high);
    const float error = sum(fma(lowError, lowError, highError * highError));
    if (!isFirst && !(error < leastError)) continue;
    isFirst = false;
    leastError = error;
    group.scale = half;
    const Vec zero = Vec::set(zeroNibble);
    (lowCodes + zero).storeI8((int8_t*)group.codes);
    (highCodes + zero).storeI8((int8_t*)group.codes + 16);
  }
  return group;
}

inline void placeScale(const NibbleGroup& group, int token, uint8_t* to) {
  memcpy(to + q4CodeBytes + size_t(token) * sizeof group.scale, &group.scale, sizeof group.scale);
}

inline void placeKeys(const NibbleGroup& group, int token, uint8_t* to) {
  uint8_t* const lane = to + token / 16 * 256 + token % 16 * 4;
  for (int i = 0; i < q4GroupSize; i += 8) {
    for (int j = i; j < i + 4; j++) lane[i * 8 + j - i] = uint8_t(group.codes[j] | group.codes[j + 4] << 4);
  }
  placeScale(group, token, to);
}

inline void placeValues(const NibbleGroup& group, int token, uint8_t* to) {
  uint8_t* const row = to + token / 4 * 64 + token % 4;
  for (int i = 0; i < 16; i++) row[i * 4] = uint8_t(group.codes[i] | group.codes[i + 16] << 4);
  placeScale(group, token, to);
}

inline void storeQ4(const float* key, const float* value, int headSize, int token, uint8_t* block) {
  float rotated[maxHeadSize + q4GroupSize];
  uint8_t* const values = block + keyBytes(KvType::Q4, headSize);
  rotateToStore(key, headSize, rotated);
  for (int g = 0; g < q4Groups(headSize); g++) {
    placeKeys(roundGroup(rotated + g * q4GroupSize), token, block + size_t(g) * q4GroupBytes);
  }
  rotateToStore(value, headSize, rotated);
  for (int g = 0; g < q4Groups(headSize); g++) {
    placeValues(roundGroup(rotated + g * q4GroupSize), token, values + size_t(g) * q4GroupBytes);
  }
}

}  // namespace
