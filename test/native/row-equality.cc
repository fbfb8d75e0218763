// Kernels over single rows: norms, rotation, addition, softcap.

#include "equality.h"

namespace chairlift {

namespace {

std::vector<float> padded(std::vector<float> values) {
  values.resize((values.size() + 15) / 16 * 16);
  return values;
}

void holdNorm(Equality& equality, Random& random, int count, bool wild) {
  // Beside the row lies what is none of its business.
  const std::vector<float> x = random.values(size_t(count) + 20, wild);
  const std::vector<float> weight = padded(random.values(size_t(count))), bias = padded(random.values(size_t(count)));
  const NormKind kind = random.oneOf({NormKind::Rms, NormKind::Layer});
  const bool biased = random.below(2) == 0;
  equality.hold("norm of " + std::to_string(count), [&](const KernelTable& kernels) {
    std::vector<float> out(x.size(), 0.5f);
    const RowScale scale = kernels.rowScale(kind, x.data(), count, 1e-6f);
    kernels.normalize(x.data(), scale, weight.data(), biased ? bias.data() : nullptr, out.data(), count);
    out.push_back(scale.mean);
    out.push_back(scale.factor);
    return out;
  });
}

void holdInPlace(Equality& equality, Random& random, int count, bool wild) {
  const std::vector<float> x = padded(random.values(size_t(count), wild));
  const std::vector<float> delta = padded(random.values(size_t(count), wild));
  const float factor = random.oneOf({1.0f, random.value()});
  equality.hold("addScaled of " + std::to_string(count), [&](const KernelTable& kernels) {
    std::vector<float> out = x;
    kernels.addScaled(out.data(), delta.data(), factor, count);
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
  for (const int count : {512, 576, 2047, 2880}) holdNorm(equality, random, count, false);
}

}  // namespace chairlift
