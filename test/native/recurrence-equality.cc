// Kernels of layers that remember: convolutions, the delta rule, state spaces, and what they are made of.

#include "equality.h"

namespace chairlift {

namespace {

size_t roundUp(size_t n) { return (n + 15) / 16 * 16; }

void holdConvolution(Equality& equality, Random& random, bool wild) {
  const int rows = 1 + random.below(9), channels = 1 + random.below(90), taps = 1 + random.below(5);
  const size_t stride = roundUp(size_t(channels));
  const std::vector<float> x = random.values(size_t(rows) * stride, wild);
  const std::vector<float> waiting = random.values(size_t(taps) * stride, wild), bias = random.values(stride);
  const std::vector<float> weights = random.values(size_t(taps) * stride);
  const bool begins = random.below(2) == 0, biased = random.below(2) == 0, activates = random.below(2) == 0;
  equality.hold("convolution of " + std::to_string(channels), [&](const KernelTable& kernels) {
    std::vector<float> out(x.size());
    ConvolutionTask task{rows,    x.data(), stride, out.data(), stride, begins ? nullptr : waiting.data(), stride, weights.data(),
                         stride,  taps,     biased ? bias.data() : nullptr, 0, int32_t(stride), activates};
    kernels.recurrence.convolve(task);
    return out;
  });
}

/** A matrix that every row changes: its content afterwards is a result, too. */
void holdMatrix(Equality& equality, Random& random, bool wild) {
  const int rows = 1 + random.below(6), inner = 1 + random.below(70), outer = 1 + random.below(150);
  const size_t stride = size_t(2 * inner + outer), columns = roundUp(size_t(outer));
  const std::vector<float> x = random.values(size_t(rows) * stride, wild);
  const std::vector<float> first = random.values(size_t(rows)), second = random.values(size_t(rows));
  const std::vector<float> before = random.values(size_t(inner) * columns, wild);
  const bool begins = random.below(2) == 0;
  const std::string size = std::to_string(inner) + " x " + std::to_string(outer);
  const auto run = [&](const std::function<void(float*, float*)>& take) {
    std::vector<float> state(before.size()), out(size_t(rows) * size_t(outer));
    take(state.data(), out.data());
    state.insert(state.end(), out.begin(), out.end());
    return state;
  };
  const float* const from = begins ? nullptr : before.data();
  equality.hold("delta rule of " + size, [&](const KernelTable& kernels) {
    return run([&](float* state, float* out) {
      DeltaTask task{rows,         x.data(), x.data() + inner, x.data() + 2 * inner, stride, first.data(), second.data(), 1, out,
                     size_t(outer), from,    state,            columns,              inner,  outer,        0,             int32_t(columns)};
      kernels.recurrence.updateDelta(task);
    });
  });
  equality.hold("state space of " + size, [&](const KernelTable& kernels) {
    return run([&](float* state, float* out) {
      ScanTask task{rows, x.data() + 2 * inner, x.data(), x.data() + inner, stride, first.data(), second.data(), 1, 0.7f, out,
                    size_t(outer), from, state, columns, inner, outer, 0, int32_t(columns)};
      kernels.recurrence.scan(task);
    });
  });
}

void holdRow(Equality& equality, Random& random, int count, bool wild) {
  const std::vector<float> x = random.values(size_t(count), wild), bias = random.values(size_t(count));
  const std::vector<float> by = random.values(size_t(count), wild);
  equality.hold("steps and decays of " + std::to_string(count), [&](const KernelTable& kernels) {
    std::vector<float> out(2 * x.size());
    kernels.recurrence.stepsAndDecays(x.data(), bias.data(), by.data(), out.data(), out.data() + count, count);
    return out;
  });
  equality.hold("sigmoids of " + std::to_string(count), [&](const KernelTable& kernels) {
    std::vector<float> out(x.size());
    kernels.recurrence.sigmoids(x.data(), out.data(), count);
    return out;
  });
  equality.hold("length of " + std::to_string(count), [&](const KernelTable& kernels) {
    std::vector<float> out = x;
    kernels.recurrence.toLength(out.data(), count, 0.5f);
    return out;
  });
  equality.hold("row product of " + std::to_string(count), [&](const KernelTable& kernels) {
    std::vector<float> out(x.size());
    kernels.recurrence.multiplyRow(x.data(), by.data(), count % 2 == 0, out.data(), count);
    return out;
  });
}

}  // namespace

void holdRecurrence(Equality& equality, Random& random) {
  for (int i = 0; i < 60; i++) {
    for (const bool wild : {false, true}) {
      holdConvolution(equality, random, wild);
      holdMatrix(equality, random, wild);
      holdRow(equality, random, 1 + random.below(100), wild);
    }
  }
}

}  // namespace chairlift
