// See dispatch.h.

#include "dispatch.h"

#include <cstring>

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
