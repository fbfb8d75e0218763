// Integer codes in NEON: all as signed bytes, four columns to a register, with the dot product instructions where
// the compiler may use them.
#pragma once

#include <arm_neon.h>

#include "kernels/kernels.h"

namespace {

using chairlift::Codebook;
using chairlift::Encoding;

constexpr int rowTile = 4;

// Columns 0 … 3, 4 … 7, 8 … 11 and 12 … 15.
struct Codes {
  int8x16_t quarter[4];
};

struct Sums {
  int32x4_t quarter[4];
};

inline int8x16_t lessHalf(uint8x16_t bytes) { return vreinterpretq_s8_u8(veorq_u8(bytes, vdupq_n_u8(0x80))); }

template <Encoding encoding>
inline int8x16_t signedBytes(uint8x16_t bytes) {
  return encoding == Encoding::Byte ? vreinterpretq_s8_u8(bytes) : lessHalf(bytes);
}

template <Encoding encoding>
inline int8x16_t lowNibbles(const Codebook* codebook, uint8x16_t packed) {
  // Sixteenfold, which makes 0 … 15 for -8 … 7 a signed byte.
  if constexpr (encoding == Encoding::Nibble) return lessHalf(vshlq_n_u8(packed, 4));
  const uint8x16_t nibbles = vandq_u8(packed, vdupq_n_u8(15));
  return encoding == Encoding::Codebook ? vqtbl1q_s8(vld1q_s8(codebook->values), nibbles) : vreinterpretq_s8_u8(nibbles);
}

template <Encoding encoding>
inline int8x16_t highNibbles(const Codebook* codebook, uint8x16_t packed) {
  if constexpr (encoding == Encoding::Nibble) return lessHalf(vandq_u8(packed, vdupq_n_u8(0xf0)));
  const uint8x16_t nibbles = vshrq_n_u8(packed, 4);
  return encoding == Encoding::Codebook ? vqtbl1q_s8(vld1q_s8(codebook->values), nibbles) : vreinterpretq_s8_u8(nibbles);
}

inline const int8_t* spread(const int8_t* inputs) { return inputs; }

template <Encoding encoding>
inline Codes loadBytes(const uint8_t* from) {
  return {{signedBytes<encoding>(vld1q_u8(from)), signedBytes<encoding>(vld1q_u8(from + 16)),
           signedBytes<encoding>(vld1q_u8(from + 32)), signedBytes<encoding>(vld1q_u8(from + 48))}};
}

template <Encoding encoding>
inline void loadNibbles(const Codebook* codebook, const uint8_t* from, Codes& low, Codes& high) {
  const uint8x16_t a = vld1q_u8(from), b = vld1q_u8(from + 16), c = vld1q_u8(from + 32), d = vld1q_u8(from + 48);
  const auto lows = [&](uint8x16_t bytes) { return lowNibbles<encoding>(codebook, bytes); };
  const auto highs = [&](uint8x16_t bytes) { return highNibbles<encoding>(codebook, bytes); };
  low = {{lows(a), lows(b), lows(c), lows(d)}};
  high = {{highs(a), highs(b), highs(c), highs(d)}};
}

// Unsigned bytes were moved down by 128, which the offset takes back.
template <Encoding encoding>
inline Sums startDot(const int32_t* offset) {
  const int32x4_t start = vdupq_n_s32(encoding == Encoding::UnsignedByte ? -*offset : 0);
  return {{start, start, start, start}};
}

inline int32x4_t addDot(int32x4_t sums, int8x16_t codes, int8x16_t inputs) {
#ifdef __ARM_FEATURE_DOTPROD
  return vdotq_s32(sums, codes, inputs);
#else
  // Exact: |code| <= 128 and |input| <= 127, so a pair sum is at most 32,512.
  const int16x8_t low = vmull_s8(vget_low_s8(codes), vget_low_s8(inputs));
  return vpadalq_s16(sums, vpaddq_s16(low, vmull_high_s8(codes, inputs)));
#endif
}

template <Encoding>
inline Sums addDot(const Sums& sums, const Codes& codes, const int8_t* inputs) {
  int32_t four;
  memcpy(&four, inputs, sizeof four);
  const int8x16_t spread = vreinterpretq_s8_s32(vdupq_n_s32(four));
  return {{addDot(sums.quarter[0], codes.quarter[0], spread), addDot(sums.quarter[1], codes.quarter[1], spread),
           addDot(sums.quarter[2], codes.quarter[2], spread), addDot(sums.quarter[3], codes.quarter[3], spread)}};
}

template <Encoding>
inline Vec finishDot(const Sums& sums, const int32_t*) {
  return {{vcvtq_f32_s32(sums.quarter[0]), vcvtq_f32_s32(sums.quarter[1]), vcvtq_f32_s32(sums.quarter[2]),
           vcvtq_f32_s32(sums.quarter[3])}};
}

}  // namespace
