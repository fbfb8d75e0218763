// Reserved addresses: ranges are committed before use, take zeroed memory when touched, and can be released one by one.
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
  size_t bytes() const { return bytes_; }

  /** Whole pages. Costs nothing except on Windows. */
  void commit(size_t from, size_t bytes);
  /** Whole pages. Their content is lost; committed and touched again, they are zeroed. */
  void release(size_t from, size_t bytes);

 private:
  uint8_t* data_ = nullptr;
  size_t bytes_;
};

}  // namespace chairlift
