// Kernels over single rows: norm, rotation, addition, softcap.

#include "equality.h"

namespace chairlift {

namespace {

std::vector<float> padded(std::vector<float> values) {
  values.resize((values.size() + 15) / 16 * 16);
  return values;
}

void holdNorm(Equality& equality, Random& random, int count, bool wild) {
  const std::vector<float> x = padded(random.values(size_t(count), wild));
  const std::vector<float> weight = padded(random.values(size_t(count)));
  equality.hold("norm of " + std::to_string(count), [&](const KernelTable& kernels) {
    std::vector<float> out(x.size());
    const float factor = kernels.rmsFactor(x.data(), count, 1e-6f);
    kernels.scaleRow(x.data(), weight.data(), factor, out.data(), count);
    out.push_back(factor);
    return out;
  });
}

void holdInPlace(Equality& equality, Random& random, int count, bool wild) {
  const std::vector<float> x = padded(random.values(size_t(count), wild));
  const std::vector<float> delta = padded(random.values(size_t(count), wild));
  equality.hold("addTo of " + std::to_string(count), [&](const KernelTable& kernels) {
    std::vector<float> out = x;
    kernels.addTo(out.data(), delta.data(), count);
    return out;
  });
  equality.hold("softcap of " + std::to_string(count), [&](const KernelTable& kernels) {
    std::vector<float> out = x;
    kernels.softcapInPlace(out.data(), count, 30.0f);
    return out;
  });
  const std::vector<float> turns = random.values(size_t(count) * 2);
  equality.hold("rotate of " + std::to_string(count), [&](const KernelTable& kernels) {
    std::vector<float> out = x;
    kernels.rotate(out.data(), turns.data(), turns.data() + count, count / 2);
    return out;
  });
}

}  // namespace

void holdRows(Equality& equality, Random& random) {
  for (int count = 1; count <= 300; count += 1 + random.below(7)) {
    for (const bool wild : {false, true}) {
      holdNorm(equality, random, count, wild);
      holdInPlace(equality, random, count, wild);
    }
  }
}

}  // namespace chairlift
