// See reserved-memory.h.

#include "system/reserved-memory.h"

#include <stdexcept>
#include <string>

#include "system/pages.h"

namespace chairlift {

ReservedMemory::ReservedMemory(size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  data_ = static_cast<uint8_t*>(reservePages(bytes));
  if (!data_) {
    throw std::runtime_error("native addon: the system reserves no " + std::to_string(bytes >> 20) + " MB of addresses");
  }
}

ReservedMemory::~ReservedMemory() {
  if (data_) unmapPages(data_, bytes_);
}

void ReservedMemory::commit(size_t from, size_t bytes) {
  if (bytes > 0 && !commitPages(data_ + from, bytes)) {
    throw std::runtime_error("native addon: the system has no " + std::to_string((bytes >> 10) + 1) + " KB of memory left");
  }
}

void ReservedMemory::release(size_t from, size_t bytes) {
  if (!decommitPages(data_ + from, bytes)) throw std::runtime_error("native addon: the system takes no memory back");
}

}  // namespace chairlift
