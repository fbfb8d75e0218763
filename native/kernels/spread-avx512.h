// Four inputs in every lane of an AVX-512 register, as all its products of codes read them.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace {

struct Four {
  int8_t inputs[4];
};

struct Spread {
  __m512i lanes;
};

// In assembly: the compiler would move all inputs before all products, and spill them.
inline Spread spread(const int8_t* inputs) {
  __m512i lanes;
  asm("vpbroadcastd %1, %0" : "=v"(lanes) : "m"(*(const Four*)inputs));
  return {lanes};
}

}  // namespace
