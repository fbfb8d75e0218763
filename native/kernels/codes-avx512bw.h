// Integer codes in AVX-512 without VNNI: bytes as signed values, nibbles as they are, so that no 16-bit sum saturates.
#pragma once

#include <immintrin.h>

#include "kernels/kernels.h"
#include "kernels/spread-avx512.h"

namespace {

using chairlift::Codebook;
using chairlift::Encoding;

constexpr int rowTile = 8;

struct Codes {
  __m512i bytes;
};

/** For nibbles 16 bits, two to a column; for others 32. */
struct Sums {
  __m512i lanes;
};

constexpr bool isSmall(Encoding encoding) {
  return encoding == Encoding::Nibble || encoding == Encoding::UnsignedNibble;
}

template <Encoding encoding>
inline Codes loadBytes(const uint8_t* from) {
  const __m512i bytes = _mm512_loadu_si512(from);
  if constexpr (encoding == Encoding::Byte) return {bytes};
  else return {_mm512_xor_si512(bytes, _mm512_set1_epi8(char(0x80)))};
}

inline __m512i lookUp(const Codebook* codebook, __m512i nibbles) {
  return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i*)codebook->values)), nibbles);
}

template <Encoding encoding>
inline void loadNibbles(const Codebook* codebook, const uint8_t* from, Codes& low, Codes& high) {
  const __m512i mask = _mm512_set1_epi8(15), packed = _mm512_loadu_si512(from);
  low = {_mm512_and_si512(packed, mask)};
  high = {_mm512_and_si512(_mm512_srli_epi16(packed, 4), mask)};
  if constexpr (encoding == Encoding::Codebook) {
    low = {lookUp(codebook, low.bytes)};
    high = {lookUp(codebook, high.bytes)};
  }
}

template <Encoding>
inline Sums startDot(const int32_t*) {
  return {_mm512_setzero_si512()};
}

// In assembly for the same reason as `spread`: sums would be spilled between products.
inline __m512i addNibbles(__m512i sums, __m512i codes, __m512i inputs) {
  __m512i pairs;
  asm("vpmaddubsw %3, %2, %1\n\tvpaddw %1, %0, %0" : "+v"(sums), "=&v"(pairs) : "v"(codes), "v"(inputs));
  return sums;
}
inline __m512i addBytes(__m512i sums, __m512i codes, __m512i inputs) {
  __m512i pairs;
  asm("vpmaddubsw %3, %2, %1\n\tvpmaddwd %4, %1, %1\n\tvpaddd %1, %0, %0"
      : "+v"(sums), "=&v"(pairs)
      : "v"(codes), "v"(inputs), "v"(_mm512_set1_epi16(1)));
  return sums;
}

/**
 * Exact: |code| <= 128 and |input| <= 127, so a pair sum of bytes is at most 32,512, and the sixteen products of nibbles
 * that a group brings into 16 bits are at most 30,480.
 */
template <Encoding encoding>
inline Sums addDot(Sums sums, const Codes& codes, Spread inputs) {
  if constexpr (isSmall(encoding)) return {addNibbles(sums.lanes, codes.bytes, inputs.lanes)};
  const __mmask64 negative = _mm512_movepi8_mask(codes.bytes);
  const __m512i turned = _mm512_mask_sub_epi8(inputs.lanes, negative, _mm512_setzero_si512(), inputs.lanes);
  return {addBytes(sums.lanes, _mm512_abs_epi8(codes.bytes), turned)};
}

template <Encoding encoding>
inline Vec finishDot(const Sums& sums, const int32_t* offset) {
  __m512i lanes = sums.lanes;
  if constexpr (encoding == Encoding::Nibble) {
    lanes = _mm512_add_epi32(_mm512_madd_epi16(lanes, _mm512_set1_epi16(16)), _mm512_set1_epi32(*offset));
  } else if constexpr (encoding == Encoding::UnsignedNibble) {
    lanes = _mm512_madd_epi16(lanes, _mm512_set1_epi16(1));
  } else if constexpr (encoding == Encoding::UnsignedByte) {
    lanes = _mm512_sub_epi32(lanes, _mm512_set1_epi32(*offset));
  }
  return {_mm512_cvtepi32_ps(lanes)};
}

}  // namespace
