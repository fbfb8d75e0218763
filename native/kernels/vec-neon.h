// Sixteen floats in four NEON registers.
#pragma once

#include <arm_neon.h>

#include "kernels/float-bits.h"

namespace {

// Vectors of values that attention sums at a time, for four queries each, as registers allow.
constexpr int weighedSlices = 1;
// Queries whose scores are computed at a time.
constexpr int scoredQueries = 4;
// Rows and panels that a product with floats takes at a time, for the same reasons.
constexpr int floatRows = 4, floatPanels = 1;

struct Vec {
  float32x4_t quarter[4];

  static Vec zero() { return set(0.0f); }
  static Vec set(float value) {
    const float32x4_t four = vdupq_n_f32(value);
    return {{four, four, four, four}};
  }
  static Vec load(const float* from) {
    return {{vld1q_f32(from), vld1q_f32(from + 4), vld1q_f32(from + 8), vld1q_f32(from + 12)}};
  }
  static Vec loadF16(const uint16_t* from) {
    const float16x8_t low = vreinterpretq_f16_u16(vld1q_u16(from));
    const float16x8_t high = vreinterpretq_f16_u16(vld1q_u16(from + 8));
    return {{vcvt_f32_f16(vget_low_f16(low)), vcvt_high_f32_f16(low), vcvt_f32_f16(vget_low_f16(high)),
             vcvt_high_f32_f16(high)}};
  }
  static Vec loadBf16(const uint16_t* from) {
    const uint16x8_t low = vld1q_u16(from), high = vld1q_u16(from + 8);
    return {{widenBf16(vget_low_u16(low)), widenBf16(vget_high_u16(low)), widenBf16(vget_low_u16(high)),
             widenBf16(vget_high_u16(high))}};
  }
  static Vec loadF8(const uint8_t* from) {
    const int8x16_t bytes = vld1q_s8((const int8_t*)from);
    const float16x8_t low = halvesOf(vmovl_s8(vget_low_s8(bytes))), high = halvesOf(vmovl_high_s8(bytes));
    return {{vcvt_f32_f16(vget_low_f16(low)), vcvt_high_f32_f16(low), vcvt_f32_f16(vget_low_f16(high)),
             vcvt_high_f32_f16(high)}};
  }
  static Vec loadI8(const int8_t* from) {
    const int8x16_t bytes = vld1q_s8(from);
    const int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_high_s8(bytes);
    return {{vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))), vcvtq_f32_s32(vmovl_high_s16(low)),
             vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))), vcvtq_f32_s32(vmovl_high_s16(high))}};
  }
  static Vec loadPowers(const uint8_t* from) {
    const uint8x16_t bytes = vld1q_u8(from);
    const uint16x8_t low = vmovl_u8(vget_low_u8(bytes)), high = vmovl_high_u8(bytes);
    return {{widenPowers(vget_low_u16(low)), widenPowers(vget_high_u16(low)), widenPowers(vget_low_u16(high)),
             widenPowers(vget_high_u16(high))}};
  }
  void store(float* to) const {
    vst1q_f32(to, quarter[0]);
    vst1q_f32(to + 4, quarter[1]);
    vst1q_f32(to + 8, quarter[2]);
    vst1q_f32(to + 12, quarter[3]);
  }
  void storeI8(int8_t* to) const {
    const int16x8_t low = vcombine_s16(roundToWords(quarter[0]), roundToWords(quarter[1]));
    const int16x8_t high = vcombine_s16(roundToWords(quarter[2]), roundToWords(quarter[3]));
    vst1q_s8(to, vcombine_s8(vqmovn_s16(low), vqmovn_s16(high)));
  }
  void storeF16(uint16_t* to) const {
    vst1q_u16(to, vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(quarter[0]), quarter[1])));
    vst1q_u16(to + 8, vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(quarter[2]), quarter[3])));
  }
  static int32_t sumI8(const int8_t* from) { return vaddlvq_s8(vld1q_s8(from)); }

 private:
  static float16x8_t halvesOf(int16x8_t words) {
    return vreinterpretq_f16_s16(vandq_s16(vshlq_n_s16(words, 7), vdupq_n_s16(int16_t(0xbfff))));
  }
  static float32x4_t widenPowers(uint16x4_t powers) {
    const uint32x4_t exponents = vshlq_n_u32(vmovl_u16(powers), 23);
    return vreinterpretq_f32_u32(vmaxq_u32(exponents, vdupq_n_u32(0x00400000)));
  }
  static float32x4_t widenBf16(uint16x4_t words) { return vreinterpretq_f32_u32(vshll_n_u16(words, 16)); }
  static int16x4_t roundToWords(float32x4_t x) { return vqmovn_s32(vcvtnq_s32_f32(x)); }
};

template <class Op, class... Vecs>
inline Vec eachQuarter(Op op, const Vecs&... v) {
  return {{op(v.quarter[0]...), op(v.quarter[1]...), op(v.quarter[2]...), op(v.quarter[3]...)}};
}

inline Vec operator+(Vec a, Vec b) {
  return eachQuarter([](float32x4_t x, float32x4_t y) { return vaddq_f32(x, y); }, a, b);
}
inline Vec operator-(Vec a, Vec b) {
  return eachQuarter([](float32x4_t x, float32x4_t y) { return vsubq_f32(x, y); }, a, b);
}
inline Vec operator*(Vec a, Vec b) {
  return eachQuarter([](float32x4_t x, float32x4_t y) { return vmulq_f32(x, y); }, a, b);
}
inline Vec operator/(Vec a, Vec b) {
  return eachQuarter([](float32x4_t x, float32x4_t y) { return vdivq_f32(x, y); }, a, b);
}
inline Vec fma(Vec a, Vec b, Vec c) {
  return eachQuarter([](float32x4_t x, float32x4_t y, float32x4_t z) { return vfmaq_f32(z, x, y); }, a, b, c);
}

// NEON's own maximum and minimum give NaN where one operand is; the other ISAs give the second operand.
inline float32x4_t maximumOf(float32x4_t a, float32x4_t b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
inline float32x4_t minimumOf(float32x4_t a, float32x4_t b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
inline Vec max(Vec a, Vec b) { return eachQuarter(maximumOf, a, b); }
inline Vec min(Vec a, Vec b) { return eachQuarter(minimumOf, a, b); }

inline Vec round(Vec a) {
  return eachQuarter([](float32x4_t x) { return vrndnq_f32(x); }, a);
}
inline Vec powerOfTwo(Vec a) {
  const auto power = [](float32x4_t x) {
    const int32x4_t biased = vaddq_s32(vcvtnq_s32_f32(x), vdupq_n_s32(127));
    return vreinterpretq_f32_s32(vshlq_n_s32(biased, 23));
  };
  return eachQuarter(power, a);
}

inline uint32x4_t laneMask(int first, int end, int offset) {
  constexpr int32_t lanes[4] = {0, 1, 2, 3};
  const int32x4_t lane = vaddq_s32(vld1q_s32(lanes), vdupq_n_s32(offset));
  return vandq_u32(vcgeq_s32(lane, vdupq_n_s32(first)), vcltq_s32(lane, vdupq_n_s32(end)));
}
inline Vec select(int first, int end, Vec a, Vec b) {
  return {{vbslq_f32(laneMask(first, end, 0), a.quarter[0], b.quarter[0]),
           vbslq_f32(laneMask(first, end, 4), a.quarter[1], b.quarter[1]),
           vbslq_f32(laneMask(first, end, 8), a.quarter[2], b.quarter[2]),
           vbslq_f32(laneMask(first, end, 12), a.quarter[3], b.quarter[3])}};
}

// The same folding order as the other ISAs: halves onto each other.
inline float sum(Vec a) {
  const float32x4_t four =
      vaddq_f32(vaddq_f32(a.quarter[0], a.quarter[2]), vaddq_f32(a.quarter[1], a.quarter[3]));
  const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
  return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}
inline float maximum(Vec a) {
  const float32x4_t four =
      maximumOf(maximumOf(a.quarter[0], a.quarter[2]), maximumOf(a.quarter[1], a.quarter[3]));
  const float32x4_t two = maximumOf(four, vextq_f32(four, four, 2));
  return vgetq_lane_f32(maximumOf(two, vextq_f32(two, two, 1)), 0);
}

inline Vec largerMagnitudes(Vec a, Vec b) {
  const auto bits = [](float32x4_t x) { return vreinterpretq_u32_f32(vabsq_f32(x)); };
  return eachQuarter([&](float32x4_t x, float32x4_t y) { return vreinterpretq_f32_u32(vmaxq_u32(bits(x), bits(y))); }, a, b);
}

inline float largestMagnitude(Vec a, Vec b) {
  const Vec larger = largerMagnitudes(a, b);
  uint32x4_t four = vdupq_n_u32(0);
  for (int i = 0; i < 4; i++) four = vmaxq_u32(four, vreinterpretq_u32_f32(larger.quarter[i]));
  return bitsToFloat(vmaxvq_u32(four));
}

}  // namespace
