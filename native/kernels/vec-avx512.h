// Sixteen floats in one AVX-512 register.
#pragma once

#include <immintrin.h>

#include "kernels/float-bits.h"

namespace {

// Vectors of values that attention sums at a time, for four queries each: several sums hide the latency of each, and share a
// weight.
constexpr int weighedSlices = 6;
// Queries whose scores are computed at a time.
constexpr int scoredQueries = 8;
// Rows and panels that a product with floats takes at a time, for the same reasons.
constexpr int floatRows = 8, floatPanels = 3;

struct Vec {
  __m512 lanes;

  static Vec zero() { return {_mm512_setzero_ps()}; }
  static Vec set(float value) { return {_mm512_set1_ps(value)}; }
  static Vec load(const float* from) { return {_mm512_loadu_ps(from)}; }
  static Vec loadF16(const uint16_t* from) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)from))};
  }
  static Vec loadBf16(const uint16_t* from) {
    const __m512i words = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)from));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(words, 16))};
  }
  static Vec loadF8(const uint8_t* from) {
    const __m256i words = _mm256_slli_epi16(_mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i*)from)), 7);
    return {_mm512_cvtph_ps(_mm256_and_si256(words, _mm256_set1_epi16(short(0xbfff))))};
  }
  static Vec loadI8(const int8_t* from) {
    return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i*)from)))};
  }
  static Vec loadPowers(const uint8_t* from) {
    const __m512i exponents = _mm512_slli_epi32(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i*)from)), 23);
    return {_mm512_castsi512_ps(_mm512_max_epi32(exponents, _mm512_set1_epi32(0x00400000)))};
  }
  void store(float* to) const { _mm512_storeu_ps(to, lanes); }
  void storeI8(int8_t* to) const {
    _mm_storeu_si128((__m128i*)to, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(lanes)));
  }
  void storeF16(uint16_t* to) const {
    _mm256_storeu_si256((__m256i*)to, _mm512_cvtps_ph(lanes, _MM_FROUND_TO_NEAREST_INT));
  }
  static int32_t sumI8(const int8_t* from) {
    // Sums of unsigned bytes are one instruction.
    const __m128i bytes = _mm_xor_si128(_mm_loadu_si128((const __m128i*)from), _mm_set1_epi8(char(0x80)));
    const __m128i halves = _mm_sad_epu8(bytes, _mm_setzero_si128());
    return _mm_cvtsi128_si32(halves) + _mm_extract_epi32(halves, 2) - 16 * 128;
  }
};

inline Vec operator+(Vec a, Vec b) { return {_mm512_add_ps(a.lanes, b.lanes)}; }
inline Vec operator-(Vec a, Vec b) { return {_mm512_sub_ps(a.lanes, b.lanes)}; }
inline Vec operator*(Vec a, Vec b) { return {_mm512_mul_ps(a.lanes, b.lanes)}; }
inline Vec operator/(Vec a, Vec b) { return {_mm512_div_ps(a.lanes, b.lanes)}; }
inline Vec fma(Vec a, Vec b, Vec c) { return {_mm512_fmadd_ps(a.lanes, b.lanes, c.lanes)}; }
inline Vec max(Vec a, Vec b) { return {_mm512_max_ps(a.lanes, b.lanes)}; }
inline Vec min(Vec a, Vec b) { return {_mm512_min_ps(a.lanes, b.lanes)}; }
inline Vec round(Vec a) {
  return {_mm512_roundscale_ps(a.lanes, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
inline Vec powerOfTwo(Vec a) {
  const __m512i biased = _mm512_add_epi32(_mm512_cvtps_epi32(a.lanes), _mm512_set1_epi32(127));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(biased, 23))};
}
inline Vec select(int first, int end, Vec a, Vec b) {
  const int clampedFirst = first < 0 ? 0 : first > 16 ? 16 : first;
  const int clampedEnd = end < 0 ? 0 : end > 16 ? 16 : end;
  const uint32_t mask = ((1u << clampedEnd) - 1) & ~((1u << clampedFirst) - 1);
  return {_mm512_mask_blend_ps(__mmask16(mask), b.lanes, a.lanes)};
}

// The same folding order as the other ISAs: halves onto each other.
inline float sum(Vec a) {
  const __m256 eight =
      _mm256_add_ps(_mm512_castps512_ps256(a.lanes), _mm512_extractf32x8_ps(a.lanes, 1));
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  four = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
}
inline float maximum(Vec a) {
  const __m256 eight =
      _mm256_max_ps(_mm512_castps512_ps256(a.lanes), _mm512_extractf32x8_ps(a.lanes, 1));
  __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  four = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(four, _mm_movehdup_ps(four)));
}

inline Vec largerMagnitudes(Vec a, Vec b) {
  const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
  return {_mm512_castsi512_ps(_mm512_max_epu32(_mm512_and_si512(_mm512_castps_si512(a.lanes), magnitude),
                                               _mm512_and_si512(_mm512_castps_si512(b.lanes), magnitude)))};
}

inline float largestMagnitude(Vec a, Vec b) {
  return bitsToFloat(_mm512_reduce_max_epu32(_mm512_castps_si512(largerMagnitudes(a, b).lanes)));
}

}  // namespace
