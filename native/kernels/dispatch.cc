// See dispatch.h.

#include "kernels/dispatch.h"

#include <cstring>

#include "system/instruction-sets.h"

namespace chairlift {

namespace {

// The build's flags name them.
const std::vector<const KernelTable*> compiledTables = {
#if defined(CHAIRLIFT_WITH_SCALAR)
    &scalarKernels,
#endif
#if defined(CHAIRLIFT_WITH_AVX2)
    &avx2Kernels,
#endif
#if defined(CHAIRLIFT_WITH_AVX512BW)
    &avx512bwKernels,
#endif
#if defined(CHAIRLIFT_WITH_AVX512)
    &avx512Kernels,
#endif
#if defined(CHAIRLIFT_WITH_AMX)
    &amxKernels,
#endif
#if defined(CHAIRLIFT_WITH_NEON)
    &neonKernels,
#endif
#if defined(CHAIRLIFT_WITH_DOTPROD)
    &dotprodKernels,
#endif
#if defined(CHAIRLIFT_WITH_I8MM)
    &i8mmKernels,
#endif
};

const KernelTable* compiledTable(const char* name) {
  for (const KernelTable* table : compiledTables) {
    if (strcmp(table->name, name) == 0) return table;
  }
  return nullptr;
}

}  // namespace

std::vector<const char*> runnableSets() {
  std::vector<const char*> names;
  for (const InstructionSet& set : instructionSets) {
    if (set.runsHere()) names.push_back(set.name);
  }
  return names;
}

std::vector<const KernelTable*> availableKernels() {
  std::vector<const KernelTable*> tables;
  for (const char* name : runnableSets()) {
    if (const KernelTable* table = compiledTable(name)) tables.push_back(table);
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
