// Zeroed memory straight from the system: pages are committed when first touched, huge ones where allowed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "system/pages.h"

namespace chairlift {

class PageBuffer {
 public:
  PageBuffer() = default;
  explicit PageBuffer(size_t bytes) : bytes_(bytes) {
    if (bytes == 0) return;
#ifdef __SANITIZE_ADDRESS__
    // The sanitizer sees the ends of heap memory, not those of mapped pages.
    data_ = static_cast<uint8_t*>(aligned_alloc(64, (bytes + 63) / 64 * 64));
    if (!data_) throw std::bad_alloc();
    memset(data_, 0, bytes);
#else
    data_ = static_cast<uint8_t*>(mapPages(bytes));
    if (!data_) throw std::bad_alloc();
#endif
  }
  PageBuffer(PageBuffer&& other) noexcept { swap(other); }
  PageBuffer& operator=(PageBuffer&& other) noexcept {
    swap(other);
    return *this;
  }
  PageBuffer(const PageBuffer&) = delete;
  ~PageBuffer() {
#ifdef __SANITIZE_ADDRESS__
    free(data_);
#else
    if (data_) unmapPages(data_, bytes_);
#endif
  }

  uint8_t* data() const { return data_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }
  size_t bytes() const { return bytes_; }

 private:
  void swap(PageBuffer& other) {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }

  uint8_t* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace chairlift
