// See dispatch.h.

#include "kernels/dispatch.h"

#include <cstring>

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

namespace {

bool always() { return true; }

#if defined(__x86_64__)
bool hasAvx2() { return x86Features().avx2; }
bool hasAvx512Bw() { return x86Features().avx512; }
bool hasAvx512() { return x86Features().avx512Vnni; }
#endif

#if defined(__x86_64__) && defined(__linux__)
/** Tiles need the chip and, once per process, the system's leave. */
bool hasAmx() {
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
bool hasDotProduct() { return (getauxval(AT_HWCAP) & (1ul << 20)) != 0; }
bool hasInt8MatrixMultiply() { return hasDotProduct() && (getauxval(AT_HWCAP2) & (1ul << 13)) != 0; }
#elif defined(__aarch64__) && defined(__APPLE__)
bool hasFeature(const char* name) {
  int present = 0;
  size_t size = sizeof present;
  return sysctlbyname(name, &present, &size, nullptr, 0) == 0 && present != 0;
}
bool hasDotProduct() { return hasFeature("hw.optional.arm.FEAT_DotProd"); }
bool hasInt8MatrixMultiply() { return hasDotProduct() && hasFeature("hw.optional.arm.FEAT_I8MM"); }
#elif defined(__aarch64__)
bool hasDotProduct() { return false; }
bool hasInt8MatrixMultiply() { return false; }
#endif

struct Candidate {
  const KernelTable* table;
  bool (*runsHere)();
};

// Slowest first.
const Candidate candidates[] = {
    {&scalarKernels, always},
#if defined(__x86_64__)
    {&avx2Kernels, hasAvx2},
    {&avx512bwKernels, hasAvx512Bw},
    {&avx512Kernels, hasAvx512},
#if defined(__linux__)
    {&amxKernels, hasAmx},
#endif
#endif
#if defined(__aarch64__)
    {&neonKernels, always},
    {&dotprodKernels, hasDotProduct},
    {&i8mmKernels, hasInt8MatrixMultiply},
#endif
};

}  // namespace

std::vector<const KernelTable*> availableKernels() {
  std::vector<const KernelTable*> tables;
  for (const Candidate& candidate : candidates) {
    if (candidate.runsHere()) tables.push_back(candidate.table);
  }
  return tables;
}

const KernelTable* bestKernels() { return availableKernels().back(); }

const KernelTable* findKernels(const char* name) {
  for (const KernelTable* table : availableKernels()) {
    if (strcmp(table->name, name) == 0) return table;
  }
  return nullptr;
}

}  // namespace chairlift
