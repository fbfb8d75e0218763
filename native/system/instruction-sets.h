// Instruction sets that kernels are compiled for, and which of them this machine runs. Needs no kernels: a build asks before
// it compiles any.
#pragma once

#include "system/x86-features.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif
#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif
#if defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>
#endif

namespace chairlift {

inline bool always() { return true; }

#if defined(__x86_64__)
inline bool hasAvx2() { return x86Features().avx2; }
inline bool hasAvx512Bw() { return x86Features().avx512; }
inline bool hasAvx512() { return x86Features().avx512Vnni; }
#endif

#if defined(__x86_64__) && defined(__linux__)
/** Tiles need the chip and, once per process, the system's permission. */
inline bool hasAmx() {
  unsigned a, b, c, d;
  if (!hasAvx512() || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
  constexpr unsigned bitMatrices = 1u << 8, tile = 1u << 24, int8 = 1u << 25;
  if ((c & bitMatrices) == 0 || (d & tile) == 0 || (d & int8) == 0) return false;
  constexpr long requestPermission = 0x1023, tileData = 18;
  static const bool granted = syscall(SYS_arch_prctl, requestPermission, tileData) == 0;
  return granted;
}
#endif

#if defined(__aarch64__) && defined(__linux__)
// The bits are the kernel's interface; older headers lack their names.
inline bool hasDotProduct() { return (getauxval(AT_HWCAP) & (1ul << 20)) != 0; }
inline bool hasInt8MatrixMultiply() { return hasDotProduct() && (getauxval(AT_HWCAP2) & (1ul << 13)) != 0; }
#elif defined(__aarch64__) && defined(__APPLE__)
inline bool hasFeature(const char* name) {
  int present = 0;
  size_t size = sizeof present;
  return sysctlbyname(name, &present, &size, nullptr, 0) == 0 && present != 0;
}
inline bool hasDotProduct() { return hasFeature("hw.optional.arm.FEAT_DotProd"); }
inline bool hasInt8MatrixMultiply() { return hasDotProduct() && hasFeature("hw.optional.arm.FEAT_I8MM"); }
#elif defined(__aarch64__)
inline bool hasDotProduct() { return false; }
inline bool hasInt8MatrixMultiply() { return false; }
#endif

struct InstructionSet {
  // Also of its kernel table.
  const char* name;
  bool (*runsHere)();
};

// Slowest first.
inline constexpr InstructionSet instructionSets[] = {
    {"scalar", always},
#if defined(__x86_64__)
    {"avx2", hasAvx2},
    {"avx512bw", hasAvx512Bw},
    {"avx512", hasAvx512},
#if defined(__linux__)
    {"amx", hasAmx},
#endif
#endif
#if defined(__aarch64__)
    {"neon", always},
    {"dotprod", hasDotProduct},
    {"i8mm", hasInt8MatrixMultiply},
#endif
};

}  // namespace chairlift
