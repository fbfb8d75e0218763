// Four inputs in every lane of an AVX-512 register, as all its products of codes read them.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace {

struct Four {
  int8_t inputs[4];
};

/** Four inputs in every lane. */
struct Spread {
  __m512i lanes;
};

// In assembly: left to itself, the compiler moves all inputs before all products, and has no registers for them.
inline Spread spread(const int8_t* inputs) {
  __m512i lanes;
  asm("vpbroadcastd %1, %0" : "=v"(lanes) : "m"(*(const Four*)inputs));
  return {lanes};
}

}  // namespace
