// Runs a computation on every kernel table that this machine has and compares the results with the scalar one's.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "kernels/dispatch.h"

namespace chairlift {

/** The same numbers on every machine. */
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint32_t bits() {
    state_ += 0x9e3779b97f4a7c15ull;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return uint32_t((z ^ (z >> 31)) >> 32);
  }
  int below(int end) { return int(bits() % uint32_t(end)); }
  template <class T>
  T oneOf(std::initializer_list<T> choices) {
    return choices.begin()[below(int(choices.size()))];
  }
  /** Either sign, over several powers of two. */
  float value() {
    const int exponent = below(14) - 30;
    return std::ldexp(float(int32_t(bits()) >> 8), exponent);
  }
  /** Now and then a zero, an infinity, NaN, or a value near the ends of the range. */
  float wildValue() {
    switch (below(24)) {
      case 0: return oneOf({0.0f, -0.0f});
      case 1: return oneOf({INFINITY, -INFINITY, NAN});
      case 2: return std::ldexp(value(), -130);
      case 3: return std::ldexp(value(), 100);
      case 4: return float(below(255) - 127) / 2;
      default: return value();
    }
  }
  std::vector<float> values(size_t count, bool wild = false) {
    std::vector<float> all(count);
    for (float& one : all) one = wild ? wildValue() : value();
    return all;
  }

 private:
  uint64_t state_;
};

class Equality {
 public:
  using Run = std::function<std::vector<float>(const KernelTable&)>;

  Equality() : tables_(availableKernels()) {}

  /** Every table's result must have the bits of the scalar one's; of NaNs only that they are there counts. */
  void hold(const std::string& what, const Run& run) {
    const std::vector<float> expected = run(scalarKernels);
    for (float value : expected) addToFingerprint(value);
    for (const KernelTable* table : tables_) {
      if (table != &scalarKernels) compare(*table, what, expected, run);
    }
  }

  /** The same for a result that was computed without kernels: the scalar table must have its bits too. */
  void holdTo(const std::vector<float>& expected, const std::string& what, const Run& run) {
    for (const KernelTable* table : tables_) compare(*table, what, expected, run);
  }

  /** Prints what was found; returns the process's exit code. */
  int report() const {
    printf("tables:");
    for (const KernelTable* table : tables_) printf(" %s", table->name);
    printf("\ncomparisons: %d\ndifferences: %d\nfingerprint: %016llx\n", comparisons_, differences_,
           static_cast<unsigned long long>(fingerprint_));
    return differences_ == 0 ? 0 : 1;
  }

 private:
  // Architectures differ in the sign and payload of the NaNs they make.
  static uint32_t canonicalBits(float value) {
    if (std::isnan(value)) return 0x7fc00000u;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
  }
  void compare(const KernelTable& table, const std::string& what, const std::vector<float>& expected, const Run& run) {
    comparisons_++;
    const std::vector<float> actual = run(table);
    for (size_t i = 0; i < expected.size(); i++) {
      if (canonicalBits(actual[i]) == canonicalBits(expected[i])) continue;
      // The first few say enough.
      if (differences_++ < 20) {
        printf("%s: %s, value %zu: expected %.9g, got %.9g\n", table.name, what.c_str(), i, double(expected[i]),
               double(actual[i]));
      }
      break;
    }
  }
  void addToFingerprint(float value) { fingerprint_ = (fingerprint_ ^ canonicalBits(value)) * 0x100000001b3ull; }

  std::vector<const KernelTable*> tables_;
  int comparisons_ = 0;
  int differences_ = 0;
  uint64_t fingerprint_ = 0xcbf29ce484222325ull;
};

void holdProducts(Equality& equality, Random& random);
void holdRows(Equality& equality, Random& random);
void holdRecurrence(Equality& equality, Random& random);
void holdAttention(Equality& equality, Random& random);
void holdOrder(Equality& equality, Random& random);
void holdQ4(Equality& equality, Random& random);

}  // namespace chairlift
