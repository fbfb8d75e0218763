// RMS norm and layer norm.
#pragma once

#include <vector>

#include "kernels/kernels.h"

namespace chairlift {

struct Norm {
  NormKind kind = NormKind::Rms;
  // Padded to whole groups. Weights are 1 where a model has none; the bias may be empty.
  std::vector<float> weight, bias;

  const float* biasOrNull() const { return bias.empty() ? nullptr : bias.data(); }

  /** In place, with weights from `firstWeight` on. */
  void apply(const KernelTable& kernels, float* values, int count, float epsilon, int firstWeight = 0) const {
    const RowScale scale = kernels.rowScale(kind, values, count, epsilon);
    const float* const biases = bias.empty() ? nullptr : bias.data() + firstWeight;
    kernels.normalize(values, scale, weight.data() + firstWeight, biases, values, count);
  }
};

}  // namespace chairlift
