// The threads of a simulated GPU: the same functions as on a real one (kernels/portable.h). Each thread of a block has a stack of
// its own and runs until it waits for others. Lanes of a warp that do not all meet, or a block that does not, end in an error.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/float-bits.h"

#define CHAIRLIFT_DEVICE static inline
#define CHAIRLIFT_METHOD inline
#define CHAIRLIFT_CONSTANT static const

namespace chairlift {
namespace cuda {

using RunKernel = void (*)(const void* args);

/** A kernel's name and code, listed when the program starts. */
struct SimulatedKernel {
  SimulatedKernel(const char* name, RunKernel run, int threads);

  const char* const name;
  const RunKernel run;
  const int threads;
  const SimulatedKernel* const next;
};

const SimulatedKernel* findSimulated(const char* name);

/** Runs all blocks of a kernel. */
void simulate(const SimulatedKernel& kernel, int gridX, int gridY, int threads, size_t sharedBytes, const void* args);

#define CHAIRLIFT_KERNEL(name, Args, threads, blocks, ...)                                  \
  static void name##Run(const void* given) {                                                \
    const Args& args = *static_cast<const Args*>(given);                                    \
    __VA_ARGS__;                                                                            \
  }                                                                                         \
  static const ::chairlift::cuda::SimulatedKernel name##Kernel(#name, name##Run, threads);

namespace simulator {

struct Position {
  int thread, threads, blockX, blockY, gridX;
};

const Position& position();
uint8_t* shared();
void meetBlock();
/** The most that a lane gives others. */
constexpr size_t laneBytes = 64;
/** Gives each lane's `bytes` at `own` to all: those of lane i lie at i * laneBytes of the result, until the lane meets others again. */
const uint8_t* exchange(const void* own, size_t bytes);
void copy(void* to, const void* from);
void commit();
void waitFor(int pending);

}  // namespace simulator

CHAIRLIFT_DEVICE int threadIndex() { return simulator::position().thread; }
CHAIRLIFT_DEVICE int threadCount() { return simulator::position().threads; }
CHAIRLIFT_DEVICE int blockX() { return simulator::position().blockX; }
CHAIRLIFT_DEVICE int blockY() { return simulator::position().blockY; }
CHAIRLIFT_DEVICE int blocksX() { return simulator::position().gridX; }
CHAIRLIFT_DEVICE uint8_t* sharedMemory() { return simulator::shared(); }
CHAIRLIFT_DEVICE void syncBlock() { simulator::meetBlock(); }

template <class T>
CHAIRLIFT_DEVICE T shuffle(T value, int lane) {
  static_assert(sizeof value <= simulator::laneBytes, "more than a lane can give");
  const uint8_t* all = simulator::exchange(&value, sizeof value);
  memcpy(&value, all + (lane & 31) * simulator::laneBytes, sizeof value);
  return value;
}
template <class T>
CHAIRLIFT_DEVICE T shuffleXor(T value, int mask) {
  return shuffle(value, (threadIndex() ^ mask) & 31);
}
CHAIRLIFT_DEVICE uint32_t ballot(bool vote) {
  const uint8_t* all = simulator::exchange(&vote, sizeof vote);
  uint32_t bits = 0;
  for (size_t lane = 0; lane < 32; lane++) bits |= uint32_t(all[lane * simulator::laneBytes]) << lane;
  return bits;
}
CHAIRLIFT_DEVICE void syncWarp() { ballot(true); }
CHAIRLIFT_DEVICE uint32_t largestOfWarp(uint32_t value) {
  for (int half = 16; half > 0; half /= 2) {
    const uint32_t other = shuffleXor(value, half);
    value = other > value ? other : value;
  }
  return value;
}

template <class T>
CHAIRLIFT_DEVICE T atomicIncrease(T* at, T by) {
  const T before = *at;
  *at = T(before + by);
  return before;
}
CHAIRLIFT_DEVICE uint32_t atomicLargest(uint32_t* at, uint32_t value) {
  const uint32_t before = *at;
  if (value > before) *at = value;
  return before;
}

CHAIRLIFT_DEVICE float fusedMultiplyAdd(float a, float b, float c) { return std::fma(a, b, c); }
CHAIRLIFT_DEVICE double fusedMultiplyAdd(double a, double b, double c) { return std::fma(a, b, c); }
CHAIRLIFT_DEVICE float asFloat(uint32_t bits) { return bitsToFloat(bits); }
CHAIRLIFT_DEVICE uint32_t asBits(float value) { return floatToBits(value); }
CHAIRLIFT_DEVICE float roundToEven(float value) { return nearbyintf(value); }
CHAIRLIFT_DEVICE float squareRoot(float value) { return sqrtf(value); }
CHAIRLIFT_DEVICE float divided(float a, float b) { return a / b; }
CHAIRLIFT_DEVICE int countBits(uint32_t bits) { return __builtin_popcount(bits); }
CHAIRLIFT_DEVICE float halfToFloat(uint16_t bits) { return f16ToFloat(bits); }
CHAIRLIFT_DEVICE uint16_t floatToHalf(float value) { return floatToF16(value); }

struct alignas(16) Words4 {
  uint32_t x, y, z, w;
};
struct alignas(8) Words2 {
  uint32_t x, y;
};
struct alignas(8) Floats2 {
  float x, y;
};
struct alignas(16) Floats4 {
  float x, y, z, w;
};

CHAIRLIFT_DEVICE Words4 loadOnce(const Words4* from) { return *from; }
template <class T>
CHAIRLIFT_DEVICE void loadOnceIf(bool isWanted, const T* from, T& to) {
  if (isWanted) to = *from;
}
CHAIRLIFT_DEVICE void prefetch(const void*) {}
// Blocks run one after another.
CHAIRLIFT_DEVICE void fenceWrites() {}
template <class T>
CHAIRLIFT_DEVICE T loadFresh(const T* from) {
  return *from;
}
CHAIRLIFT_DEVICE void copyToShared(void* to, const void* from) { simulator::copy(to, from); }
CHAIRLIFT_DEVICE void commitCopies() { simulator::commit(); }
template <int pending>
CHAIRLIFT_DEVICE void waitForCopies() {
  simulator::waitFor(pending);
}
CHAIRLIFT_DEVICE void waitForPrevious() {}
CHAIRLIFT_DEVICE void startNext() {}

template <bool isUnsigned>
CHAIRLIFT_DEVICE void multiplyTile(int (&d)[4], const uint32_t (&a)[4], Words2 b, const int (&c)[4]) {
  struct Operands {
    uint32_t a[4];
    Words2 b;
  } own;
  static_assert(sizeof own <= simulator::laneBytes, "more than a lane can give");
  memcpy(own.a, a, sizeof own.a);
  own.b = b;
  const uint8_t* all = simulator::exchange(&own, sizeof own);
  const auto of = [all](int lane) -> const Operands& { return *(const Operands*)(all + lane * int(simulator::laneBytes)); };
  const int g = threadIndex() % 32 / 4, t = threadIndex() % 4;
  for (int i = 0; i < 4; i++) {
    const int row = i < 2 ? g : g + 8, column = 2 * t + i % 2;
    int sum = c[i];
    for (int k = 0; k < 32; k++) {
      const uint32_t left = of(row % 8 * 4 + k % 16 / 4).a[row / 8 + k / 16 * 2] >> (k % 4 * 8) & 255;
      const Words2 pair = of(column * 4 + k % 16 / 4).b;
      const uint32_t right = (k < 16 ? pair.x : pair.y) >> (k % 4 * 8) & 255;
      sum += (isUnsigned ? int(left) : int(int8_t(left))) * int(int8_t(right));
    }
    d[i] = sum;
  }
}

}  // namespace cuda
}  // namespace chairlift
