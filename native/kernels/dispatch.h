// Chooses among the kernel tables that this build holds and this machine can run.
#pragma once

#include <vector>

#include "kernels/kernels.h"

namespace chairlift {

/** Names of the instruction sets this machine runs, slowest first, with or without kernels in this build. */
std::vector<const char*> runnableSets();
/** The tables this machine runs, slowest first; all give the same bits. */
std::vector<const KernelTable*> availableKernels();
const KernelTable* bestKernels();
/** The named one, or null where this machine or build lacks it. */
const KernelTable* findKernels(const char* name);

}  // namespace chairlift
