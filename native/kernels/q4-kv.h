// KV of four bits. Heads are rotated before they are rounded, which spreads outliers over all values and changes no score; groups of
// 32 values of a token have a scale each. A group's 32 tokens lie together, so that a byte has two values of one token:
//
//   keys    [16 tokens, twice][8 values, four times]: four bytes a token, values 0 to 3 in their low halves, 4 to 7 in their high ones
//   values  [4 tokens, eight times][16 values]: a byte a token, values 0 to 15 in the low halves, 16 to 31 in the high ones
//   scales  a half for each token, after either
#pragma once

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

/** The value of the largest magnitude becomes -8, by a scale of either sign. NaN and infinities make the scale NaN. */
inline NibbleGroup roundGroup(const float* x) {
  float largest = 0, poison = 0;
  for (int i = 0; i < q4GroupSize; i++) {
    if (__builtin_fabsf(x[i]) > __builtin_fabsf(largest)) largest = x[i];
    poison += x[i] - x[i];
  }
  const float scale = largest / -float(zeroNibble);
  const float inRange = scale > 65504.0f ? 65504.0f : scale < -65504.0f ? -65504.0f : scale;
  NibbleGroup group;
  group.scale = floatToF16(inRange + poison);
  const float stored = f16ToFloat(group.scale);
  const float inverse = stored == 0 ? 0.0f : 1.0f / stored;
  for (int i = 0; i < q4GroupSize; i++) {
    const float code = __builtin_nearbyintf(x[i] * inverse) + float(zeroNibble);
    group.codes[i] = code >= 0 ? code <= 15 ? uint8_t(code) : uint8_t(15) : uint8_t(0);
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
