// Loops written out by the compiler's front end.
#pragma once

#define CHAIRLIFT_INLINE __attribute__((always_inline)) inline
#define CHAIRLIFT_LAMBDA __attribute__((always_inline))

namespace {

/** f(0) … f(count - 1), written out: arrays of vectors stay in registers only where every index is a constant. */
template <int count, int from = 0, class F>
CHAIRLIFT_INLINE void repeat(const F& f) {
  if constexpr (from < count) {
    f(from);
    repeat<count, from + 1>(f);
  }
}

}  // namespace
