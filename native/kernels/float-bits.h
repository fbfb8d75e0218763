// Bit-exact conversions between float32 and the 16-bit floats, rounding to nearest even as the hardware does.
#pragma once

#include <cstdint>
#include <cstring>

// Every ISA's translation unit gets its own copy: a shared one could be compiled with instructions that
// the running machine lacks.
namespace {

inline float bitsToFloat(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

inline uint32_t floatToBits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline float bf16ToFloat(uint16_t bits) { return bitsToFloat(uint32_t(bits) << 16); }

/** 2^(power - 127) for powers up to 254; the one of 0 is subnormal. */
inline float powerToFloat(uint8_t power) { return bitsToFloat(power == 0 ? 0x00400000u : uint32_t(power) << 23); }

inline float f16ToFloat(uint16_t half) {
  const uint32_t sign = uint32_t(half & 0x8000) << 16;
  const uint32_t exponent = (half >> 10) & 0x1f;
  const uint32_t mantissa = half & 0x3ff;
  if (exponent == 0) {
    // Zero and subnormals: mantissa * 2^-24 is exact in float32.
    const float magnitude = float(mantissa) * 5.9604644775390625e-8f;
    return bitsToFloat(floatToBits(magnitude) | sign);
  }
  if (exponent == 31) return bitsToFloat(sign | 0x7f800000u | (mantissa << 13));
  return bitsToFloat(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

/** The bits of the half that is a 256th of a float of eight bits: one exponent bit more, at its top. Not for NaN. */
inline uint16_t f8ToHalf(uint8_t bits) { return uint16_t((bits & 0x80) << 8 | (bits & 0x7f) << 7); }

inline uint16_t floatToF16(float value) {
  const uint32_t bits = floatToBits(value);
  const uint16_t sign = uint16_t((bits >> 16) & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7e00;
  if (magnitude >= 0x477ff000u) return sign | 0x7c00;
  if (magnitude < 0x38800000u) {
    // Subnormal result: adding 0.5 leaves round(|value| * 2^24) in the low mantissa bits.
    const float shifted = bitsToFloat(magnitude) + 0.5f;
    return sign | uint16_t(floatToBits(shifted) - 0x3f000000u);
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1);
  return sign | uint16_t((rounded - 0x38000000u) >> 13);
}

}  // namespace
