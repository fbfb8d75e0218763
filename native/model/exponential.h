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
 * e^x for each of some values, to about one unit in the last place; 0 below the normal numbers, NaN stays NaN. `dividedBy(a, i)` is
 * a / i, rounded. Without branches and with all values in one loop a GPU computes them side by side, and with little code.
 */
template <int count, class Divide>
CHAIRLIFT_ANYWHERE inline void exponentials(double (&values)[count], const Divide& dividedBy) {
  constexpr double ln2Upper = 0.693147180369123816490, ln2Lower = 1.90821492927058770002e-10;
  double rest[count], power[count], twoToN[count];
  for (int k = 0; k < count; k++) {
    const double given = values[k], x = given > 709 ? 709 : given < -708 || given != given ? -708 : given;
    const double n = std::nearbyint(x * 1.4426950408889634);
    const uint64_t bits = uint64_t(int64_t(n) + 1023) << 52;
    memcpy(&twoToN[k], &bits, sizeof bits);
    rest[k] = (x - n * ln2Upper) - n * ln2Lower;
    power[k] = 1;
  }
  // The series of e^rest, |rest| at most ln 2 / 2.
#ifdef __CUDACC__
#pragma unroll 1
#endif
  for (int i = 14; i >= 1; i--) {
    for (int k = 0; k < count; k++) power[k] = 1 + dividedBy(power[k] * rest[k], i);
  }
  for (int k = 0; k < count; k++) {
    const double given = values[k];
    values[k] = given != given ? given : given < -708 ? 0 : power[k] * twoToN[k];
  }
}

struct Division {
  CHAIRLIFT_ANYWHERE double operator()(double a, int i) const { return a / i; }
};

CHAIRLIFT_ANYWHERE inline double exponential(double x) {
  double one[] = {x};
  exponentials(one, Division{});
  return one[0];
}

CHAIRLIFT_ANYWHERE inline double sigmoid(double x) { return 1 / (1 + exponential(-x)); }

}  // namespace chairlift
