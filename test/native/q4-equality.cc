// KV of four bits in plain loops: what is stored is close to what was given, and attention over it has the bits of whole-number sums
// in groups of 32.

#include <algorithm>

#include "plain-attention.h"
#include "kernels/q4-kv.h"

namespace chairlift {

namespace {

struct Stored {
  int code;
  float scale;
};

float scaleOf(const uint8_t* group, int token) {
  uint16_t half;
  memcpy(&half, group + 512 + token * 2, sizeof half);
  return f16ToFloat(half);
}

Stored keyOf(const uint8_t* block, int token, int d) {
  const uint8_t* const group = block + d / 32 * 576;
  const int byte = group[token / 16 * 256 + d % 32 / 8 * 64 + token % 16 * 4 + d % 4];
  return {(d % 8 < 4 ? byte & 15 : byte >> 4) - 8, scaleOf(group, token)};
}

Stored valueOf(const uint8_t* block, int size, int token, int d) {
  const uint8_t* const group = block + ((size + 31) / 32 + d / 32) * 576;
  const int byte = group[token / 4 * 64 + d % 16 * 4 + token % 4];
  return {(d % 32 < 16 ? byte & 15 : byte >> 4) - 8, scaleOf(group, token)};
}

/** Row d of the transform that heads are stored by, which is its own inverse. */
double rotatedBack(const std::vector<double>& rotated, int d) {
  const int size = int(rotated.size()), run = size & -size, first = d / run * run;
  double sum = 0;
  for (int i = 0; i < run; i++) {
    sum += (__builtin_popcount(unsigned(i) & unsigned(d - first)) % 2 == 0 ? 1 : -1) * rotated[size_t(first + i)];
  }
  // Stored values were multiplied by 2^-⌈n / 2⌉ of runs of 2^n.
  return sum * std::pow(2.0, std::ceil(std::log2(double(run)) / 2)) / run;
}

template <class Of>
bool isClose(const std::vector<float>& given, const Of& of) {
  std::vector<double> rotated;
  double step = 0;
  for (int d = 0; d < int(given.size()); d++) {
    const Stored one = of(d);
    rotated.push_back(double(one.code) * double(one.scale));
    step = std::max(step, std::abs(double(one.scale)));
  }
  double before = 0, difference = 0;
  for (int d = 0; d < int(given.size()); d++) {
    before += double(given[size_t(d)]) * double(given[size_t(d)]);
    difference += std::pow(rotatedBack(rotated, d) - double(given[size_t(d)]), 2);
  }
  return difference <= 0.02 * before;
}

/** Values of one size, as heads have them, but for one that is far larger. */
std::vector<float> headOf(Random& random, int size) {
  std::vector<float> head;
  for (int d = 0; d < size; d++) head.push_back(float(random.below(2001) - 1000) / 1000);
  head[size_t(random.below(size))] *= 20;
  return head;
}

void holdStored(Equality& equality, Random& random, int size) {
  const std::vector<float> key = headOf(random, size), value = headOf(random, size);
  const int token = random.below(blockTokens);
  equality.holdTo({1, 1}, "KV of four bits, rotated back, heads of " + std::to_string(size), [&](const KernelTable& kernels) {
    std::vector<uint8_t> block(headBlockBytes(KvType::Q4, size, false));
    kernels.storeKv(KvType::Q4, key.data(), value.data(), size, token, block.data());
    return std::vector<float>{isClose(key, [&](int d) { return keyOf(block.data(), token, d); }) ? 1.0f : 0.0f,
                              isClose(value, [&](int d) { return valueOf(block.data(), size, token, d); }) ? 1.0f : 0.0f};
  });
}

struct Bytes {
  int codes[32];
  int sum = 0;
  float scale;
};

float largestOf(const float* x, int count) {
  float largest = 0;
  for (int i = 0; i < count; i++) largest = std::max(largest, std::fabs(x[i]));
  return largest;
}

Bytes bytesOf(const float* x, float largest) {
  Bytes bytes;
  bytes.scale = largest / 127.0f;
  const float inverse = bytes.scale > 1e-30f ? 1.0f / bytes.scale : 0.0f;
  for (int i = 0; i < 32; i++) bytes.sum += bytes.codes[i] = int(std::nearbyint(x[i] * inverse));
  return bytes;
}

void holdQ4Attended(Equality& equality, Random& random, int size, int position, int window) {
  const int blocks = position / blockTokens + 1, groups = (size + 31) / 32;
  const size_t blockBytes = headBlockBytes(KvType::Q4, size, false);
  // Where no token was stored lies NaN.
  std::vector<uint8_t> memory(blockBytes * size_t(blocks), 0xff);
  const auto blockOf = [&](int token) { return &memory[size_t(token / blockTokens) * blockBytes]; };
  for (int token = 0; token <= position; token++) {
    const std::vector<float> key = headOf(random, size), value = headOf(random, size);
    scalarKernels.storeKv(KvType::Q4, key.data(), value.data(), size, token % blockTokens, blockOf(token));
  }
  const std::vector<float> query = headOf(random, size);
  const std::vector<int32_t> table = tableOf(blocks);
  AttentionTask task = taskOf(query, table, memory.data(), blockBytes, position);
  task.window = window;
  task.scale = 0.1f;

  std::vector<float> rotated = query;
  rotateBack(rotated.data(), size);
  rotated.resize(size_t(groups) * 32);
  std::vector<Bytes> queryBytes;
  for (int g = 0; g < groups; g++) queryBytes.push_back(bytesOf(&rotated[size_t(g) * 32], largestOf(&rotated[size_t(g) * 32], 32)));
  const auto dot = [&](int token) {
    float total = 0;
    for (int g = 0; g < groups; g++) {
      const Bytes& own = queryBytes[size_t(g)];
      int sum = 0;
      for (int i = 0; i < 32; i++) sum += own.codes[i] * keyOf(blockOf(token), token % blockTokens, g * 32 + i).code;
      total = std::fma(float(sum) * own.scale, scaleOf(blockOf(token) + g * 576, token % blockTokens), total);
    }
    return total;
  };
  const int first = window > 0 && position >= window ? position - window + 1 : 0;
  const auto weigh = [&](int start, const float* weights, std::vector<float>& to) {
    std::vector<float> scaled(size_t(groups) * 32);
    for (size_t i = 0; i < scaled.size(); i++) {
      const int t = int(i % 32);
      const bool isSeen = start + t >= first && start + t <= position;
      scaled[i] = isSeen ? weights[t] * valueOf(blockOf(start), size, t, int(i)).scale : 0;
    }
    const float largest = largestOf(scaled.data(), int(scaled.size()));
    for (int d = 0; d < size; d++) {
      const Bytes bytes = bytesOf(&scaled[size_t(d / 32 * 32)], largest);
      int sum = 0;
      for (int t = 0; t < 32; t++) sum += bytes.codes[t] * valueOf(blockOf(start), size, t, d).code;
      to[size_t(d)] = std::fma(float(sum), bytes.scale, to[size_t(d)]);
    }
  };
  Softmax state = attended(size, dot, weigh, task.scale, nullptr, first, position);
  rotateBack(state.accumulator.data(), size);
  const std::string what = "order of attention over KV of four bits at " + std::to_string(position) + ", heads of " + std::to_string(size);
  equality.holdTo(divided(state.accumulator, state.total), what,
                  [&](const KernelTable& kernels) { return attendedBy(kernels, KvType::Q4, task); });
}

}  // namespace

void holdQ4(Equality& equality, Random& random) {
  for (const int size : {8, 24, 32, 64, 80, 96, 128, 256}) {
    for (int i = 0; i < 10; i++) holdStored(equality, random, size);
  }
  for (const int size : {8, 40, 64, 128}) {
    for (const int position : {0, 31, 40, 511, 530, 1100}) {
      for (const int window : {0, 33}) holdQ4Attended(equality, random, size, position, window);
    }
  }
}

}  // namespace chairlift
