// Loops that are unrolled by the compiler's front end.
#pragma once

#include <utility>

#define CHAIRLIFT_INLINE __attribute__((always_inline)) inline
#define CHAIRLIFT_LAMBDA __attribute__((always_inline))

namespace {

template <class F, int... indices>
CHAIRLIFT_INLINE void callEach(const F& f, std::integer_sequence<int, indices...>) {
  (f(indices), ...);
}

/**
 * f(0) … f(count - 1), unrolled: arrays of vectors stay in registers only if every index is a constant. One list of calls, not
 * nested calls, which compile more slowly.
 */
template <int count, class F>
CHAIRLIFT_INLINE void repeat(const F& f) {
  callEach(f, std::make_integer_sequence<int, count>());
}

template <int itsValue>
struct Constant {
  static constexpr int value = itsValue;
};

/** Calls run(Constant<count>) for a count of 1 … most. */
template <int most, class Run>
CHAIRLIFT_INLINE void withCount(int count, const Run& run) {
  if (most == 1 || count == most) return run(Constant<most>());
  if constexpr (most > 1) withCount<most - 1>(count, run);
}

}  // namespace
