// Zeroed memory of which the system knows the addresses at first: pages are committed when touched and can be given
// back one range at a time.
#pragma once

#include <cstddef>
#include <cstdint>

namespace chairlift {

/** What the system hands out and takes back whole. */
size_t pageBytes();

class ReservedMemory {
 public:
  explicit ReservedMemory(size_t bytes);
  ~ReservedMemory();
  ReservedMemory(const ReservedMemory&) = delete;

  uint8_t* data() const { return data_; }

  /** Whole pages. Their content is lost; touched again, they are zeroed. */
  void release(size_t from, size_t bytes);

 private:
  uint8_t* data_ = nullptr;
  size_t bytes_;
};

}  // namespace chairlift
