// e^x and the sigmoid in double precision, from operations that every machine rounds alike: the system's own functions
// differ from one machine to the next.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define CHAIRLIFT_ANYWHERE __host__ __device__
#else
#define CHAIRLIFT_ANYWHERE
#endif

namespace chairlift {

/**
 * To about one unit in the last place; 0 below the normal numbers, NaN stays NaN. `dividedBy(a, i)` is a / i, rounded. There are no
 * branches, so that a GPU can compute several at once.
 */
template <class Divide>
CHAIRLIFT_ANYWHERE inline double exponential(double given, const Divide& dividedBy) {
  constexpr double ln2Upper = 0.693147180369123816490, ln2Lower = 1.90821492927058770002e-10;
  const bool isNumber = given == given;
  const double x = given > 709 ? 709 : given < -708 || !isNumber ? -708 : given;
  const double n = std::nearbyint(x * 1.4426950408889634);
  const double rest = (x - n * ln2Upper) - n * ln2Lower;
  // The series of e^rest, |rest| at most ln 2 / 2.
  double power = 1;
#ifdef __CUDACC__
#pragma unroll
#endif
  for (int i = 14; i >= 1; i--) power = 1 + dividedBy(power * rest, i);
  const uint64_t bits = uint64_t(int64_t(n) + 1023) << 52;
  double twoToN;
  memcpy(&twoToN, &bits, sizeof twoToN);
  return !isNumber ? given : given < -708 ? 0 : power * twoToN;
}

struct Division {
  CHAIRLIFT_ANYWHERE double operator()(double a, int i) const { return a / i; }
};

CHAIRLIFT_ANYWHERE inline double exponential(double x) { return exponential(x, Division{}); }

CHAIRLIFT_ANYWHERE inline double sigmoid(double x) { return 1 / (1 + exponential(-x)); }

}  // namespace chairlift
