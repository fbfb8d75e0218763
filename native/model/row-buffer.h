// A buffer of rows of floats that grows to the largest step.
#pragma once

#include "kernels/kernels.h"
#include "system/page-buffer.h"

namespace chairlift {

/** A row's length padded to whole groups, as kernels take them. */
constexpr size_t paddedLength(int count) { return (size_t(count) + groupInputs - 1) / groupInputs * groupInputs; }

class RowBuffer {
 public:
  /** Uninitialized. */
  float* rows(size_t count, size_t stride) {
    const size_t bytes = count * stride * sizeof(float);
    if (memory_.bytes() < bytes) memory_ = PageBuffer(bytes);
    return memory_.as<float>();
  }
  float* data() const { return memory_.as<float>(); }

 private:
  PageBuffer memory_;
};

}  // namespace chairlift
