// See reserved-memory.h.

#include "system/reserved-memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <stdexcept>
#include <string>

namespace chairlift {

namespace {

void* map(void* address, size_t bytes, int flags) {
  return mmap(address, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
}

}  // namespace

size_t pageBytes() {
  static const size_t bytes = size_t(sysconf(_SC_PAGESIZE));
  return bytes;
}

ReservedMemory::ReservedMemory(size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  void* memory = map(nullptr, bytes, 0);
  if (memory == MAP_FAILED) {
    throw std::runtime_error("native addon: the system reserves no " + std::to_string(bytes >> 20) + " MB of addresses");
  }
  data_ = static_cast<uint8_t*>(memory);
#ifdef MADV_NOHUGEPAGE
  // A huge page of which a part is released stays whole until the system runs short, though it no longer counts.
  madvise(memory, bytes, MADV_NOHUGEPAGE);
#endif
}

ReservedMemory::~ReservedMemory() {
  if (data_) munmap(data_, bytes_);
}

void ReservedMemory::release(size_t from, size_t bytes) {
#ifdef __linux__
  const bool released = madvise(data_ + from, bytes, MADV_DONTNEED) == 0;
#else
  // Elsewhere that advice may be taken as a hint; a fresh mapping in its place is none.
  const bool released = map(data_ + from, bytes, MAP_FIXED) != MAP_FAILED;
#endif
  if (!released) throw std::runtime_error("native addon: the system takes no memory back");
}

}  // namespace chairlift
