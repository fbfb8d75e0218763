// Rows of floats that a step writes and reads, with room for as many as the largest step had.
#pragma once

#include "kernels/kernels.h"
#include "system/page-buffer.h"

namespace chairlift {

/** A row's length with room for whole groups, as kernels take them. */
constexpr size_t paddedLength(int count) { return (size_t(count) + groupInputs - 1) / groupInputs * groupInputs; }

class RowBuffer {
 public:
  /** Room for so many rows; they hold anything. */
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
