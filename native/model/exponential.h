// e^x and the sigmoid in double precision, from operations that every machine rounds alike: the system's own functions
// differ from one machine to the next.
#pragma once

#include <cmath>

#ifdef __CUDACC__
#define CHAIRLIFT_ANYWHERE __host__ __device__
#else
#define CHAIRLIFT_ANYWHERE
#endif

namespace chairlift {

/** To about one unit in the last place; 0 below the normal numbers, NaN stays NaN. */
CHAIRLIFT_ANYWHERE inline double exponential(double x) {
  constexpr double ln2Upper = 0.693147180369123816490, ln2Lower = 1.90821492927058770002e-10;
  if (x > 709) x = 709;
  if (x < -708) return 0;
  const double n = std::nearbyint(x * 1.4426950408889634);
  const double rest = (x - n * ln2Upper) - n * ln2Lower;
  // The series of e^rest, |rest| at most ln 2 / 2.
  double power = 1;
  for (int i = 14; i >= 1; i--) power = 1 + power * rest / i;
  return std::isnan(x) ? x : std::ldexp(power, int(n));
}

CHAIRLIFT_ANYWHERE inline double sigmoid(double x) { return 1 / (1 + exponential(-x)); }

}  // namespace chairlift
