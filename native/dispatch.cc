// See dispatch.h.

#include "dispatch.h"

#include <cstring>

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace chairlift {

namespace {

bool always() { return true; }

#if defined(__x86_64__)
bool hasAvx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
}
bool hasAvx512() {
  return hasAvx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vnni");
}
#endif

#if defined(__x86_64__) && defined(__linux__)
/** Tiles need the chip and, once per process, the system's leave. */
bool hasAmx() {
  unsigned a, b, c, d;
  if (!hasAvx512() || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
  constexpr unsigned tile = 1u << 24, int8 = 1u << 25;
  if ((d & tile) == 0 || (d & int8) == 0) return false;
  constexpr long requestPermission = 0x1023, tileData = 18;
  static const bool granted = syscall(SYS_arch_prctl, requestPermission, tileData) == 0;
  return granted;
}
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
    {&avx512Kernels, hasAvx512},
#if defined(__linux__)
    {&amxKernels, hasAmx},
#endif
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
