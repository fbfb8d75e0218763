// Prints the instruction sets that this machine runs, slowest first, one a line: a build asks before it compiles kernels.

#include "system/instruction-sets.h"

#include <cstdio>

int main() {
  for (const chairlift::InstructionSet& set : chairlift::instructionSets) {
    if (set.runsHere()) puts(set.name);
  }
}
