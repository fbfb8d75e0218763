// Where keys and values of a head lie in a block, and how they become floats.
// Include after the ISA's vec-*.h.
#pragma once

#include "kernels/kernels.h"

namespace {

using namespace chairlift;

// `isKept`: between steps.
struct HalfKv {
  static constexpr bool isKept = true;
  using Element = uint16_t;
  static Vec load(const Element* from) { return Vec::loadF16(from); }
  static Vec scaled(Vec x, const float*) { return x; }
};
struct FloatKv {
  static constexpr bool isKept = false;
  using Element = float;
  static Vec load(const Element* from) { return Vec::load(from); }
  static Vec scaled(Vec x, const float*) { return x; }
};
struct ByteKv {
  static constexpr bool isKept = true;
  using Element = int8_t;
  static Vec load(const Element* from) { return Vec::loadI8(from); }
  static Vec scaled(Vec x, const float* scales) { return x * Vec::load(scales); }
};
/** Q4: products are whole numbers. */
struct NibbleKv {
  static constexpr bool isKept = true;
};

template <class Kv>
struct KvBlock {
  using Element = typename Kv::Element;
  const Element* keys;
  const Element* values;
  const float* keyScales;
  const float* valueScales;
  // From the values of one token to those of the next.
  size_t valueStride;

  KvBlock(KvType type, const uint8_t* block, int headSize, bool valuesInKeys) {
    const uint8_t* valuePart = valuesInKeys ? block : block + keyBytes(type, headSize);
    valueStride = roundUp16(size_t(headSize));
    keys = (const Element*)block;
    values = (const Element*)valuePart;
    valueScales = (const float*)(valuePart + valueStride * blockTokens * sizeof(Element));
    keyScales = valuesInKeys ? valueScales
                             : (const float*)(block + size_t(headSize) * blockTokens * sizeof(Element));
  }
  Vec scaledByKeys(Vec products, int token) const { return Kv::scaled(products, keyScales + token); }
  Vec scaledByValues(Vec weights, int token) const { return Kv::scaled(weights, valueScales + token); }
};

/** Groups have scales of their own, which weights meet group by group. */
template <>
struct KvBlock<NibbleKv> {
  const uint8_t* keys;
  const uint8_t* values;

  KvBlock(KvType type, const uint8_t* block, int headSize, bool) : keys(block), values(block + keyBytes(type, headSize)) {}
  Vec scaledByValues(Vec weights, int) const { return weights; }
};

}  // namespace
