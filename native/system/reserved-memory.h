// Zeroed memory of which the system knows the addresses at first: ranges are committed before they are used, take memory
// when they are touched, and can be given back one by one.
#pragma once

#include <cstddef>
#include <cstdint>

namespace chairlift {

class ReservedMemory {
 public:
  explicit ReservedMemory(size_t bytes);
  ~ReservedMemory();
  ReservedMemory(const ReservedMemory&) = delete;

  uint8_t* data() const { return data_; }

  /** Whole pages, which may be touched from now on. Costs nothing but on Windows. */
  void commit(size_t from, size_t bytes);
  /** Whole pages. Their content is lost; committed and touched again, they are zeroed. */
  void release(size_t from, size_t bytes);

 private:
  uint8_t* data_ = nullptr;
  size_t bytes_;
};

}  // namespace chairlift
