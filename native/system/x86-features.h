// What an x86 processor can do, asked from the processor itself: __builtin_cpu_supports needs a part of the compiler's
// library that not every compiler brings.
#pragma once

#if defined(__x86_64__)

#include <cpuid.h>

namespace chairlift {

struct X86Features {
  /** With F16C and FMA. */
  bool avx2 = false;
  /** F, BW, DQ and VL. */
  bool avx512 = false;
  bool avx512Vnni = false;
};

inline X86Features readX86Features() {
  const auto has = [](unsigned word, unsigned bit) { return (word >> bit & 1) != 0; };
  X86Features features;
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return features;
  constexpr unsigned fma = 12, osxsave = 27, avx = 28, f16c = 29;
  if (!has(c, osxsave) || !has(c, avx) || !has(c, fma) || !has(c, f16c)) return features;

  // Registers are of use only where the system saves them when it changes threads.
  unsigned saved, high;
  __asm__("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
  constexpr unsigned avxState = 0x06;
  if ((saved & avxState) != avxState) return features;
#if defined(__APPLE__)
  // Saves them from their first use on, and does not say so before.
  const bool savesAvx512 = true;
#else
  constexpr unsigned avx512State = 0xe6;
  const bool savesAvx512 = (saved & avx512State) == avx512State;
#endif

  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return features;
  features.avx2 = has(b, 5);
  features.avx512 = features.avx2 && savesAvx512 && has(b, 16) && has(b, 17) && has(b, 30) && has(b, 31);
  features.avx512Vnni = features.avx512 && has(c, 11);
  return features;
}

inline const X86Features& x86Features() {
  static const X86Features features = readX86Features();
  return features;
}

}  // namespace chairlift

#endif
