// Sixteen floats in two AVX2 registers.
#pragma once

#include <immintrin.h>

#include "kernels/float-bits.h"

namespace {

// Vectors of values that attention sums at a time, for four queries each, as registers allow.
constexpr int weighedSlices = 1;
// Queries whose scores are computed at a time.
constexpr int scoredQueries = 4;
// Rows and panels that a product with floats takes at a time, for the same reasons.
constexpr int floatRows = 6, floatPanels = 1;

struct Vec {
  __m256 low, high;

  static Vec zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  static Vec set(float value) { return {_mm256_set1_ps(value), _mm256_set1_ps(value)}; }
  static Vec load(const float* from) { return {_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)}; }
  static Vec loadF16(const uint16_t* from) {
    return {_mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)from)),
            _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)(from + 8)))};
  }
  static Vec loadBf16(const uint16_t* from) { return {widenBf16(from), widenBf16(from + 8)}; }
  static Vec loadF8(const uint8_t* from) {
    const __m128i bytes = _mm_loadu_si128((const __m128i*)from);
    return {widenF8(bytes), widenF8(_mm_srli_si128(bytes, 8))};
  }
  static Vec loadI8(const int8_t* from) {
    const __m128i bytes = _mm_loadu_si128((const __m128i*)from);
    return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)),
            _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8)))};
  }
  static Vec loadPowers(const uint8_t* from) {
    const __m128i bytes = _mm_loadu_si128((const __m128i*)from);
    return {widenPowers(bytes), widenPowers(_mm_srli_si128(bytes, 8))};
  }
  void store(float* to) const {
    _mm256_storeu_ps(to, low);
    _mm256_storeu_ps(to + 8, high);
  }
  void storeI8(int8_t* to) const {
    const __m256i words = _mm256_packs_epi32(_mm256_cvtps_epi32(low), _mm256_cvtps_epi32(high));
    const __m256i ordered = _mm256_permute4x64_epi64(words, 0xd8);
    const __m128i bytes =
        _mm_packs_epi16(_mm256_castsi256_si128(ordered), _mm256_extracti128_si256(ordered, 1));
    _mm_storeu_si128((__m128i*)to, bytes);
  }
  void storeF16(uint16_t* to) const {
    _mm_storeu_si128((__m128i*)to, _mm256_cvtps_ph(low, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128((__m128i*)(to + 8), _mm256_cvtps_ph(high, _MM_FROUND_TO_NEAREST_INT));
  }
  static int32_t sumI8(const int8_t* from) {
    const __m256i words = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i*)from));
    const __m256i pairs = _mm256_madd_epi16(words, _mm256_set1_epi16(1));
    __m128i sums = _mm_add_epi32(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
    sums = _mm_add_epi32(sums, _mm_srli_si128(sums, 8));
    sums = _mm_add_epi32(sums, _mm_srli_si128(sums, 4));
    return _mm_cvtsi128_si32(sums);
  }

 private:
  static __m256 widenF8(__m128i bytes) {
    const __m128i words = _mm_slli_epi16(_mm_cvtepi8_epi16(bytes), 7);
    return _mm256_cvtph_ps(_mm_and_si128(words, _mm_set1_epi16(short(0xbfff))));
  }
  static __m256 widenPowers(__m128i bytes) {
    const __m256i exponents = _mm256_slli_epi32(_mm256_cvtepu8_epi32(bytes), 23);
    return _mm256_castsi256_ps(_mm256_max_epi32(exponents, _mm256_set1_epi32(0x00400000)));
  }
  static __m256 widenBf16(const uint16_t* from) {
    const __m256i words = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)from));
    return _mm256_castsi256_ps(_mm256_slli_epi32(words, 16));
  }
};

inline Vec operator+(Vec a, Vec b) { return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)}; }
inline Vec operator-(Vec a, Vec b) { return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)}; }
inline Vec operator*(Vec a, Vec b) { return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)}; }
inline Vec operator/(Vec a, Vec b) { return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)}; }
inline Vec fma(Vec a, Vec b, Vec c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
inline Vec max(Vec a, Vec b) { return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)}; }
inline Vec min(Vec a, Vec b) { return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)}; }
inline Vec round(Vec a) {
  constexpr int nearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm256_round_ps(a.low, nearest), _mm256_round_ps(a.high, nearest)};
}
inline __m256 powerOfTwo(__m256 a) {
  const __m256i biased = _mm256_add_epi32(_mm256_cvtps_epi32(a), _mm256_set1_epi32(127));
  return _mm256_castsi256_ps(_mm256_slli_epi32(biased, 23));
}
inline Vec powerOfTwo(Vec a) { return {powerOfTwo(a.low), powerOfTwo(a.high)}; }

inline __m256 laneMask(int first, int end, int offset) {
  const __m256i lane =
      _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(offset));
  const __m256i below = _mm256_cmpgt_epi32(_mm256_set1_epi32(first), lane);
  const __m256i inside = _mm256_cmpgt_epi32(_mm256_set1_epi32(end), lane);
  return _mm256_castsi256_ps(_mm256_andnot_si256(below, inside));
}
inline Vec select(int first, int end, Vec a, Vec b) {
  return {_mm256_blendv_ps(b.low, a.low, laneMask(first, end, 0)),
          _mm256_blendv_ps(b.high, a.high, laneMask(first, end, 8))};
}

inline float sum(Vec a) {
  const __m256 eight = _mm256_add_ps(a.low, a.high);
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  four = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
}
inline float maximum(Vec a) {
  const __m256 eight = _mm256_max_ps(a.low, a.high);
  __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  four = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(four, _mm_movehdup_ps(four)));
}

inline __m256 largerMagnitudes(__m256 a, __m256 b) {
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
  const auto bits = [&](__m256 x) { return _mm256_and_si256(_mm256_castps_si256(x), magnitude); };
  return _mm256_castsi256_ps(_mm256_max_epu32(bits(a), bits(b)));
}
inline Vec largerMagnitudes(Vec a, Vec b) { return {largerMagnitudes(a.low, b.low), largerMagnitudes(a.high, b.high)}; }

inline float largestMagnitude(Vec a, Vec b) {
  const Vec larger = largerMagnitudes(a, b);
  const __m256i eight = _mm256_max_epu32(_mm256_castps_si256(larger.low), _mm256_castps_si256(larger.high));
  __m128i four = _mm_max_epu32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  four = _mm_max_epu32(four, _mm_shuffle_epi32(four, 0x4e));
  four = _mm_max_epu32(four, _mm_shuffle_epi32(four, 0xb1));
  return bitsToFloat(uint32_t(_mm_cvtsi128_si32(four)));
}

}  // namespace
