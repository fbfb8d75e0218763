// Integer codes in AVX-512 VNNI: unsigned weights times signed inputs, four to a lane, one instruction.
#pragma once

#include <immintrin.h>

#include "codebook.h"
#include "kernels.h"

namespace {

constexpr int rowTile = 8;

struct Codes {
  __m512i bytes;
};

struct Sums {
  __m512i lanes;
  static Sums zero() { return {_mm512_setzero_si512()}; }
};

inline Codes loadBytes(const uint8_t* from) { return {_mm512_loadu_si512(from)}; }

inline void loadNibbles(const uint8_t* from, Codes& low, Codes& high) {
  const __m512i mask = _mm512_set1_epi8(15);
  const __m512i packed = _mm512_loadu_si512(from);
  low = {_mm512_and_si512(packed, mask)};
  high = {_mm512_and_si512(_mm512_srli_epi16(packed, 4), mask)};
}

// The codebook moved up by 128 to be unsigned.
inline Codes lookUp(Codes c) {
  const __m128i table = _mm_xor_si128(_mm_loadu_si128((const __m128i*)codebook), _mm_set1_epi8(char(0x80)));
  return {_mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), c.bytes)};
}

inline int32_t codeSumFactor(chairlift::Encoding encoding, int32_t zero) {
  return encoding == chairlift::Encoding::Codebook ? -128 - zero : -zero;
}

template <chairlift::Encoding>
inline Sums addDot(Sums sums, const Codes& codes, const int8_t* inputs) {
  int32_t four;
  memcpy(&four, inputs, sizeof four);
  return {_mm512_dpbusd_epi32(sums.lanes, codes.bytes, _mm512_set1_epi32(four))};
}

inline Vec toVec(const Sums& sums) { return {_mm512_cvtepi32_ps(sums.lanes)}; }

}  // namespace
