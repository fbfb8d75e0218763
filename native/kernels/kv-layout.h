// What a block of KV takes, by type.
#pragma once

#include <cstddef>
#include <cstdint>

namespace chairlift {

constexpr int blockTokens = 32;
constexpr int maxHeadSize = 1024;

/** F32 is for what is not kept between steps. */
enum class KvType : uint8_t { F16, Q8, F32, Q4 };

/**
 * KV of one head in one block. K is transposed, [headSize][32 tokens], so that one lane is one token; V is
 * [32 tokens][headSize rounded up to 16], so that one lane is one value. Q8 adds 32 float scales to each. Where values are a part
 * of keys, only keys are stored, in the layout of V. Q4 has groups of 32 values: see q4-kv.h.
 */
constexpr size_t roundUp16(size_t n) { return (n + 15) / 16 * 16; }
// Values of a token that share a scale.
constexpr int q4GroupSize = 32;
constexpr int q4Groups(int headSize) { return (headSize + q4GroupSize - 1) / q4GroupSize; }
constexpr size_t q4CodeBytes = q4GroupSize * blockTokens / 2;
constexpr size_t q4GroupBytes = q4CodeBytes + blockTokens * sizeof(uint16_t);
constexpr size_t tokensBytes(KvType type, size_t valuesOfToken) {
  if (type == KvType::Q4) return size_t(q4Groups(int(valuesOfToken))) * q4GroupBytes;
  if (type == KvType::Q8) return valuesOfToken * blockTokens + blockTokens * sizeof(float);
  return valuesOfToken * blockTokens * (type == KvType::F16 ? 2 : sizeof(float));
}
constexpr size_t keyBytes(KvType type, int headSize) { return tokensBytes(type, size_t(headSize)); }
constexpr size_t valueBytes(KvType type, int headSize) { return tokensBytes(type, roundUp16(size_t(headSize))); }
constexpr size_t headBlockBytes(KvType type, int headSize, bool valuesInKeys) {
  return (valuesInKeys ? 0 : keyBytes(type, headSize)) + valueBytes(type, headSize);
}

/** Values of a query or of weights as bytes, whose products with those of four bits are whole numbers. */
struct ByteGroup {
  int8_t codes[q4GroupSize];
  float scale;
  // What the zero of four bits adds to a product.
  float offset;
};

/** What a query takes as bytes. */
constexpr size_t byteGroupFloats(int headSize) { return roundUp16(size_t(q4Groups(headSize)) * sizeof(ByteGroup) / sizeof(float)); }

}  // namespace chairlift
