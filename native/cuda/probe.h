// Single products on a device: for tests that hold them against the processor's, and for benchmarks.
#pragma once

#include <string>
#include <vector>

#include "cuda/device.h"
#include "cuda/kernels/args.h"
#include "model/source-format.h"

namespace chairlift {
namespace cuda {

struct ProbedProduct {
  const SourceFormat& format;
  int outputs, inputs, members, rows;
  // Without tiles all rows are of the first member.
  std::vector<Tile> tiles;
  // The family of kernels that is used where the matrix has it; empty: the one that a step would use.
  std::string family;
};

/** `weights` of all members in the file's encoding; `x` is rows x inputs, `out` rows x outputs. */
void probeProduct(Device& device, const ProbedProduct& product, const uint8_t* weights, const float* x, float* out);

/** Seconds of one product, without the making of its input, over so many copies of the matrix that no cache holds them. */
double probeProductTime(Device& device, const ProbedProduct& product, int repeats);

}  // namespace cuda
}  // namespace chairlift
