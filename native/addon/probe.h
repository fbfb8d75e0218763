// Single kernels on their own: for tests that hold every ISA against the scalar one, and for benchmarks.
#pragma once

#include "kernels/kernels.h"
#include "model/source-format.h"

namespace chairlift {

void probeUnpack(const SourceFormat& format, const uint8_t* weights, int outputs, int inputs, float* out);

/** Packs the weights, quantizes x where the format needs it, and multiplies on this thread. */
void probeMultiply(const KernelTable& kernels, const SourceFormat& format, const uint8_t* weights, int outputs,
                   int inputs, const float* x, size_t xLength, float* out);

struct ProductTiming {
  double seconds;
  size_t bytes;
};

/** Median time of one product over a matrix of random codes, and the bytes that it reads. */
ProductTiming probeTime(const KernelTable& kernels, const SourceFormat& format, int outputs, int inputs, int rows,
                        int threads, int repeats);

double probeReadBandwidth(int threads, size_t bytes);

}  // namespace chairlift
