// The words that kernels are written in: CUDA C++ for a GPU, or plain C++ that the simulator runs, thread by thread. Kernels use
// dynamic shared memory alone, and all lanes of a warp take part in every exchange.
#pragma once

#include <cstdint>
#include <cstring>

#ifdef __CUDACC__

#define CHAIRLIFT_DEVICE static __device__ __forceinline__
#define CHAIRLIFT_METHOD __device__ __forceinline__
/** A table. */
#define CHAIRLIFT_CONSTANT static __constant__ const

/** A kernel takes one struct of arguments. `blocks`: how many should fit on a multiprocessor. */
#define CHAIRLIFT_KERNEL(name, Args, threads, blocks, ...)                                                \
  extern "C" __global__ void __launch_bounds__(threads, blocks) name(const __grid_constant__ Args args) { \
    __VA_ARGS__;                                                                                          \
  }

namespace chairlift {
namespace cuda {

CHAIRLIFT_DEVICE int threadIndex() { return int(threadIdx.x); }
CHAIRLIFT_DEVICE int threadCount() { return int(blockDim.x); }
CHAIRLIFT_DEVICE int blockX() { return int(blockIdx.x); }
CHAIRLIFT_DEVICE int blockY() { return int(blockIdx.y); }
CHAIRLIFT_DEVICE int blocksX() { return int(gridDim.x); }

CHAIRLIFT_DEVICE uint8_t* sharedMemory() {
  extern __shared__ __align__(128) uint8_t chairliftShared[];
  return chairliftShared;
}

CHAIRLIFT_DEVICE void syncBlock() { __syncthreads(); }
CHAIRLIFT_DEVICE void syncWarp() { __syncwarp(); }

template <class T>
CHAIRLIFT_DEVICE T shuffle(T value, int lane) {
  return __shfl_sync(0xffffffffu, value, lane);
}
template <class T>
CHAIRLIFT_DEVICE T shuffleXor(T value, int mask) {
  return __shfl_xor_sync(0xffffffffu, value, mask);
}
CHAIRLIFT_DEVICE uint32_t ballot(bool vote) { return __ballot_sync(0xffffffffu, vote); }
/** The largest value of all lanes. */
CHAIRLIFT_DEVICE uint32_t largestOfWarp(uint32_t value) {
#if __CUDA_ARCH__ >= 800
  return __reduce_max_sync(0xffffffffu, value);
#else
  for (int half = 16; half > 0; half /= 2) value = max(value, shuffleXor(value, half));
  return value;
#endif
}
CHAIRLIFT_DEVICE int atomicIncrease(int* at, int by) { return atomicAdd(at, by); }
CHAIRLIFT_DEVICE uint32_t atomicIncrease(uint32_t* at, uint32_t by) { return atomicAdd(at, by); }
CHAIRLIFT_DEVICE uint64_t atomicIncrease(uint64_t* at, uint64_t by) {
  return atomicAdd((unsigned long long*)at, (unsigned long long)by);
}
CHAIRLIFT_DEVICE uint32_t atomicLargest(uint32_t* at, uint32_t value) { return atomicMax(at, value); }

/** a * b + c, rounded once. */
CHAIRLIFT_DEVICE float fusedMultiplyAdd(float a, float b, float c) { return fmaf(a, b, c); }
CHAIRLIFT_DEVICE double fusedMultiplyAdd(double a, double b, double c) { return fma(a, b, c); }
CHAIRLIFT_DEVICE float asFloat(uint32_t bits) { return __uint_as_float(bits); }
CHAIRLIFT_DEVICE uint32_t asBits(float value) { return __float_as_uint(value); }
CHAIRLIFT_DEVICE float roundToEven(float value) { return rintf(value); }
CHAIRLIFT_DEVICE float squareRoot(float value) { return __fsqrt_rn(value); }
CHAIRLIFT_DEVICE float divided(float a, float b) { return __fdiv_rn(a, b); }
CHAIRLIFT_DEVICE int countBits(uint32_t bits) { return __popc(bits); }

CHAIRLIFT_DEVICE float halfToFloat(uint16_t bits) {
  float value;
  asm("{ cvt.f32.f16 %0, %1; }" : "=f"(value) : "h"(bits));
  return value;
}
/** To nearest even. */
CHAIRLIFT_DEVICE uint16_t floatToHalf(float value) {
  uint16_t bits;
  asm("{ cvt.rn.f16.f32 %0, %1; }" : "=h"(bits) : "f"(value));
  return bits;
}

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

/** Reads what no kernel writes and is read once: weights. */
CHAIRLIFT_DEVICE Words4 loadOnce(const Words4* from) {
  Words4 v;
#if __CUDA_ARCH__ >= 800
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from));
#else
  asm volatile("ld.global.nc.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(from));
#endif
  return v;
}

/** As `loadOnce` where it is wanted; elsewhere `to` stays. */
CHAIRLIFT_DEVICE void loadOnceIf(bool isWanted, const Words4* from, Words4& to) {
#if __CUDA_ARCH__ >= 800
  asm volatile("{.reg .pred p; setp.ne.b32 p, %5, 0; @p ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];}"
               : "+r"(to.x), "+r"(to.y), "+r"(to.z), "+r"(to.w)
               : "l"(from), "r"(int(isWanted)));
#else
  asm volatile("{.reg .pred p; setp.ne.b32 p, %5, 0; @p ld.global.nc.v4.u32 {%0,%1,%2,%3}, [%4];}"
               : "+r"(to.x), "+r"(to.y), "+r"(to.z), "+r"(to.w)
               : "l"(from), "r"(int(isWanted)));
#endif
}
CHAIRLIFT_DEVICE void loadOnceIf(bool isWanted, const Words2* from, Words2& to) {
  asm volatile("{.reg .pred p; setp.ne.b32 p, %3, 0; @p ld.global.nc.v2.u32 {%0,%1}, [%2];}"
               : "+r"(to.x), "+r"(to.y)
               : "l"(from), "r"(int(isWanted)));
}
CHAIRLIFT_DEVICE void loadOnceIf(bool isWanted, const uint32_t* from, uint32_t& to) {
  asm volatile("{.reg .pred p; setp.ne.b32 p, %2, 0; @p ld.global.nc.u32 %0, [%1];}"
               : "+r"(to)
               : "l"(from), "r"(int(isWanted)));
}

/** Brings a line of memory nearer; nothing else changes. */
CHAIRLIFT_DEVICE void prefetch(const void* at) { asm volatile("prefetch.global.L2 [%0];" ::"l"(at)); }

/** What this thread wrote before is seen by other blocks before what it writes afterwards. */
CHAIRLIFT_DEVICE void fenceWrites() { __threadfence(); }
/** Reads what other blocks of the same kernel wrote. */
CHAIRLIFT_DEVICE float loadFresh(const float* from) { return __ldcg(from); }
CHAIRLIFT_DEVICE Floats4 loadFresh(const Floats4* from) {
  const float4 v = __ldcg((const float4*)from);
  return {v.x, v.y, v.z, v.w};
}

/** Copies 16 bytes to shared memory; they are there after `waitForCopies`. */
CHAIRLIFT_DEVICE void copyToShared(void* to, const void* from) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from));
#else
  *(Words4*)to = *(const Words4*)from;
#endif
}
/** Closes a group of copies, which may be empty. */
CHAIRLIFT_DEVICE void commitCopies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;");
#endif
}
/** Waits for this thread's groups but the last `pending`. */
template <int pending>
CHAIRLIFT_DEVICE void waitForCopies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(pending));
#endif
}

/** Waits for the kernels before; what they wrote may be read afterwards. Every kernel calls it before it writes. */
CHAIRLIFT_DEVICE void waitForPrevious() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
/** Allows the next kernel to start, up to its `waitForPrevious`. */
CHAIRLIFT_DEVICE void startNext() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

/**
 * d = c + a b, of 16 x 32 and 32 x 8 bytes. Of lane (g, t) = (lane / 4, lane % 4): a holds rows g, g + 8, g, g + 8, columns from 4t,
 * 4t, 16 + 4t, 16 + 4t on; b column g, rows from 4t and 16 + 4t on; d rows g, g, g + 8, g + 8, columns 2t, 2t + 1, 2t, 2t + 1.
 */
template <bool isUnsigned>
CHAIRLIFT_DEVICE void multiplyTile(int (&d)[4], const uint32_t (&a)[4], Words2 b, const int (&c)[4]) {
#if __CUDA_ARCH__ >= 800
  if (isUnsigned) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
        : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b.x), "r"(b.y), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]));
  } else {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
        : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b.x), "r"(b.y), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]));
  }
#else
  // Turing multiplies 8 x 16 and 16 x 8 at a time.
  for (int half = 0; half < 2; half++) {
    int e0 = c[2 * half], e1 = c[2 * half + 1];
    for (int part = 0; part < 2; part++) {
      const uint32_t own = a[half + 2 * part], other = part ? b.y : b.x;
      if (isUnsigned) {
        asm("mma.sync.aligned.m8n8k16.row.col.s32.u8.s8.s32 {%0,%1}, {%2}, {%3}, {%4,%5};"
            : "=r"(e0), "=r"(e1)
            : "r"(own), "r"(other), "r"(e0), "r"(e1));
      } else {
        asm("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%4,%5};"
            : "=r"(e0), "=r"(e1)
            : "r"(own), "r"(other), "r"(e0), "r"(e1));
      }
    }
    d[2 * half] = e0;
    d[2 * half + 1] = e1;
  }
#endif
}

}  // namespace cuda
}  // namespace chairlift

#else

#include "cuda/simulator/threads.h"

#endif
