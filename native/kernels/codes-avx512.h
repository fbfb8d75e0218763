// Integer codes in AVX-512 VNNI: unsigned weights times signed inputs, four to a lane, one instruction. Signed values
// are moved up by 128; the offset in the sums takes that back.
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

struct Sums {
  __m512i lanes;
};

constexpr bool isSigned(Encoding encoding) {
  return encoding == Encoding::Byte || encoding == Encoding::Nibble || encoding == Encoding::Codebook;
}

template <Encoding encoding>
inline Codes loadBytes(const uint8_t* from) {
  const __m512i bytes = _mm512_loadu_si512(from);
  if constexpr (encoding == Encoding::UnsignedByte) return {bytes};
  else return {_mm512_xor_si512(bytes, _mm512_set1_epi8(char(0x80)))};
}

inline __m512i lookUp(const Codebook* codebook, __m512i nibbles) {
  const __m128i table = _mm_xor_si128(_mm_loadu_si128((const __m128i*)codebook->values), _mm_set1_epi8(char(0x80)));
  return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), nibbles);
}

template <Encoding encoding>
inline void loadNibbles(const Codebook* codebook, const uint8_t* from, Codes& low, Codes& high) {
  const __m512i packed = _mm512_loadu_si512(from);
  if constexpr (encoding == Encoding::Nibble) {
    const __m512i mask = _mm512_set1_epi8(char(0xf0));
    low = {_mm512_and_si512(_mm512_slli_epi16(packed, 4), mask)};
    high = {_mm512_and_si512(packed, mask)};
  } else {
    const __m512i mask = _mm512_set1_epi8(15);
    low = {_mm512_and_si512(packed, mask)};
    high = {_mm512_and_si512(_mm512_srli_epi16(packed, 4), mask)};
    if constexpr (encoding == Encoding::Codebook) {
      low = {lookUp(codebook, low.bytes)};
      high = {lookUp(codebook, high.bytes)};
    }
  }
}

template <Encoding encoding>
inline Sums startDot(const int32_t* offset) {
  return {isSigned(encoding) ? _mm512_set1_epi32(*offset) : _mm512_setzero_si512()};
}

// In assembly for the same reason as `spread`.
template <Encoding>
inline Sums addDot(Sums sums, const Codes& codes, Spread inputs) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sums.lanes) : "v"(codes.bytes), "v"(inputs.lanes));
  return sums;
}

template <Encoding>
inline Vec finishDot(const Sums& sums, const int32_t*) {
  return {_mm512_cvtepi32_ps(sums.lanes)};
}

}  // namespace
