// Writes keys and values of a token into a block, as each KV type has them.
// Include after the ISA's vec-*.h and vec-math.h.
#pragma once

#include "kernels/kernels.h"
#include "kernels/q4-kv.h"

namespace {

using namespace chairlift;

/** Clamped to the range of halves, so that none is infinite. */
inline void toHalves(const float* from, int count, uint16_t* to) {
  const Vec largest = Vec::set(65504.0f), smallest = Vec::set(-65504.0f);
  float tail[16] = {};
  for (int d = 0; d < count; d += 16) {
    const bool whole = d + 16 <= count;
    if (!whole) memcpy(tail, from + d, size_t(count - d) * sizeof(float));
    // The operand order matters: NaN stays NaN.
    max(smallest, min(largest, Vec::load(whole ? from + d : tail))).storeF16(to + d);
  }
}

inline void storeHalves(const float* key, const float* value, int headSize, int token, uint8_t* block) {
  const size_t row = size_t(token) * roundUp16(size_t(headSize));
  if (!value) return toHalves(key, headSize, (uint16_t*)block + row);
  uint16_t halves[maxHeadSize];
  toHalves(key, headSize, halves);
  uint16_t* keys = (uint16_t*)block + token;
  for (int d = 0; d < headSize; d++) keys[d * blockTokens] = halves[d];
  toHalves(value, headSize, (uint16_t*)(block + keyBytes(KvType::F16, headSize)) + row);
}

inline void storeFloats(const float* key, const float* value, int headSize, int token, uint8_t* block) {
  float* const keys = (float*)block + token;
  for (int d = 0; d < headSize; d++) keys[d * blockTokens] = key[d];
  const size_t padded = roundUp16(size_t(headSize));
  float* const values = (float*)(block + keyBytes(KvType::F32, headSize)) + size_t(token) * padded;
  memcpy(values, value, size_t(headSize) * sizeof(float));
  memset(values + headSize, 0, (padded - size_t(headSize)) * sizeof(float));
}

/** One scale per token and head; returns it. */
inline float storeBytes(const float* from, int count, int8_t* to, size_t stride) {
  float largest = 0;
  float poison = 0;
  for (int i = 0; i < count; i++) {
    const float magnitude = __builtin_fabsf(from[i]);
    if (magnitude > largest) largest = magnitude;
    poison += from[i] - from[i];
  }
  const float scale = largest / 127.0f;
  const float inverse = scale > 1e-30f ? 1.0f / scale : 0.0f;
  for (int i = 0; i < count; i++) {
    const float code = __builtin_nearbyintf(from[i] * inverse);
    to[size_t(i) * stride] = code >= -127.0f && code <= 127.0f ? int8_t(code) : int8_t(0);
  }
  return scale + poison;
}

void storeKv(KvType type, const float* key, const float* value, int headSize, int token, uint8_t* block) {
  if (type == KvType::F16) return storeHalves(key, value, headSize, token, block);
  if (type == KvType::F32) return storeFloats(key, value, headSize, token, block);
  if (type == KvType::Q4) return storeQ4(key, value, headSize, token, block);
  uint8_t* valuePart = value ? block + keyBytes(type, headSize) : block;
  const size_t padded = roundUp16(headSize);
  float* keyScales = (float*)(block + size_t(headSize) * blockTokens);
  float* valueScales = (float*)(valuePart + padded * blockTokens);
  if (value) keyScales[token] = storeBytes(key, headSize, (int8_t*)block + token, blockTokens);
  valueScales[token] = storeBytes(value ? value : key, headSize, (int8_t*)valuePart + size_t(token) * padded, 1);
}

}  // namespace
