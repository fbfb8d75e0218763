// Integer codes in AVX2: bytes as signed values, nibbles as they are, so that no 16-bit pair sum saturates.
#pragma once

#include <immintrin.h>

#include "codebook.h"
#include "kernels.h"

namespace {

constexpr int rowTile = 4;

// Columns 0 … 7 and 8 … 15.
struct Codes {
  __m256i low, high;
};

struct Sums {
  __m256i low, high;
  static Sums zero() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
};

inline Codes loadBytes(const uint8_t* from) {
  const __m256i toSigned = _mm256_set1_epi8(char(0x80));
  return {_mm256_xor_si256(_mm256_loadu_si256((const __m256i*)from), toSigned),
          _mm256_xor_si256(_mm256_loadu_si256((const __m256i*)(from + 32)), toSigned)};
}

inline void loadNibbles(const uint8_t* from, Codes& low, Codes& high) {
  const __m256i mask = _mm256_set1_epi8(15);
  const __m256i a = _mm256_loadu_si256((const __m256i*)from);
  const __m256i b = _mm256_loadu_si256((const __m256i*)(from + 32));
  low = {_mm256_and_si256(a, mask), _mm256_and_si256(b, mask)};
  high = {_mm256_and_si256(_mm256_srli_epi16(a, 4), mask), _mm256_and_si256(_mm256_srli_epi16(b, 4), mask)};
}

inline Codes lookUp(Codes c) {
  const __m256i table = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i*)codebook));
  return {_mm256_shuffle_epi8(table, c.low), _mm256_shuffle_epi8(table, c.high)};
}

// Bytes were moved down by 128 to be signed.
inline int32_t codeSumFactor(chairlift::Encoding encoding, int32_t zero) {
  return encoding == chairlift::Encoding::Byte ? 128 - zero : -zero;
}

/** Exact: |code| <= 128 and |input| <= 127, so a pair sum is at most 32,512. */
template <chairlift::Encoding encoding>
inline __m256i addDot(__m256i sums, __m256i codes, __m256i inputs) {
  __m256i pairs;
  if constexpr (encoding == chairlift::Encoding::Nibble) pairs = _mm256_maddubs_epi16(codes, inputs);
  else pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(codes), _mm256_sign_epi8(inputs, codes));
  return _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

template <chairlift::Encoding encoding>
inline Sums addDot(Sums sums, const Codes& codes, const int8_t* inputs) {
  int32_t four;
  memcpy(&four, inputs, sizeof four);
  const __m256i spread = _mm256_set1_epi32(four);
  return {addDot<encoding>(sums.low, codes.low, spread), addDot<encoding>(sums.high, codes.high, spread)};
}

inline Vec toVec(const Sums& sums) { return {_mm256_cvtepi32_ps(sums.low), _mm256_cvtepi32_ps(sums.high)}; }

}  // namespace
