// Integer codes in AVX2: bytes as signed values, nibbles as they are, so that no 16-bit pair sum saturates.
#pragma once

#include <immintrin.h>

#include "kernels/kernels.h"

namespace {

using chairlift::Codebook;
using chairlift::Encoding;

constexpr int rowTile = 4;

// Columns 0 … 7 and 8 … 15.
struct Codes {
  __m256i low, high;
};

/** For nibbles 16 bits, two to a column; for others 32. */
struct Sums {
  __m256i low, high;
};

inline const int8_t* spread(const int8_t* inputs) { return inputs; }

template <Encoding encoding>
inline Codes loadBytes(const uint8_t* from) {
  const Codes bytes = {_mm256_loadu_si256((const __m256i*)from), _mm256_loadu_si256((const __m256i*)(from + 32))};
  if constexpr (encoding == Encoding::Byte) return bytes;
  const __m256i toSigned = _mm256_set1_epi8(char(0x80));
  return {_mm256_xor_si256(bytes.low, toSigned), _mm256_xor_si256(bytes.high, toSigned)};
}

inline Codes lookUp(const Codebook* codebook, Codes c) {
  const __m256i table = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i*)codebook->values));
  return {_mm256_shuffle_epi8(table, c.low), _mm256_shuffle_epi8(table, c.high)};
}

template <Encoding encoding>
inline void loadNibbles(const Codebook* codebook, const uint8_t* from, Codes& low, Codes& high) {
  const __m256i mask = _mm256_set1_epi8(15);
  const __m256i a = _mm256_loadu_si256((const __m256i*)from);
  const __m256i b = _mm256_loadu_si256((const __m256i*)(from + 32));
  low = {_mm256_and_si256(a, mask), _mm256_and_si256(b, mask)};
  high = {_mm256_and_si256(_mm256_srli_epi16(a, 4), mask), _mm256_and_si256(_mm256_srli_epi16(b, 4), mask)};
  if constexpr (encoding == Encoding::Codebook) {
    low = lookUp(codebook, low);
    high = lookUp(codebook, high);
  }
}

template <Encoding>
inline Sums startDot(const int32_t*) {
  return {_mm256_setzero_si256(), _mm256_setzero_si256()};
}

/**
 * Exact: |code| <= 128 and |input| <= 127, so a pair sum of bytes is at most 32,512, and the sixteen products of nibbles
 * that a group brings into 16 bits are at most 30,480.
 */
template <Encoding encoding>
inline __m256i addDot(__m256i sums, __m256i codes, __m256i inputs) {
  if constexpr (encoding == Encoding::Nibble || encoding == Encoding::UnsignedNibble) {
    return _mm256_add_epi16(sums, _mm256_maddubs_epi16(codes, inputs));
  }
  const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(codes), _mm256_sign_epi8(inputs, codes));
  return _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

template <Encoding encoding>
inline Sums addDot(Sums sums, const Codes& codes, const int8_t* inputs) {
  int32_t four;
  memcpy(&four, inputs, sizeof four);
  const __m256i spread = _mm256_set1_epi32(four);
  return {addDot<encoding>(sums.low, codes.low, spread), addDot<encoding>(sums.high, codes.high, spread)};
}

template <Encoding encoding>
inline __m256 finishDot(__m256i sums, const int32_t* offset) {
  if constexpr (encoding == Encoding::Nibble) {
    sums = _mm256_add_epi32(_mm256_madd_epi16(sums, _mm256_set1_epi16(16)), _mm256_set1_epi32(*offset));
  } else if constexpr (encoding == Encoding::UnsignedNibble) {
    sums = _mm256_madd_epi16(sums, _mm256_set1_epi16(1));
  } else if constexpr (encoding == Encoding::UnsignedByte) {
    sums = _mm256_sub_epi32(sums, _mm256_set1_epi32(*offset));
  }
  return _mm256_cvtepi32_ps(sums);
}

template <Encoding encoding>
inline Vec finishDot(const Sums& sums, const int32_t* offset) {
  return {finishDot<encoding>(sums.low, offset), finishDot<encoding>(sums.high, offset)};
}

}  // namespace
