// See pages.h. Windows counts and commits memory on request; elsewhere a page is committed when it is touched.

#include "system/pages.h"

#ifdef _WIN32

#include "system/windows.h"

namespace chairlift {

size_t pageBytes() {
  static const size_t bytes = [] {
    SYSTEM_INFO info;
    GetSystemInfo(&info);
    return size_t(info.dwPageSize);
  }();
  return bytes;
}

void* mapPages(size_t bytes) { return VirtualAlloc(nullptr, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE); }

void* reservePages(size_t bytes) { return VirtualAlloc(nullptr, bytes, MEM_RESERVE, PAGE_READWRITE); }

bool commitPages(void* from, size_t bytes) {
  return VirtualAlloc(from, bytes, MEM_COMMIT, PAGE_READWRITE) != nullptr;
}

bool decommitPages(void* from, size_t bytes) { return VirtualFree(from, bytes, MEM_DECOMMIT) != 0; }

void unmapPages(void* from, size_t) { VirtualFree(from, 0, MEM_RELEASE); }

}  // namespace chairlift

#else

#include <sys/mman.h>
#include <unistd.h>

namespace chairlift {

namespace {

void* map(void* address, size_t bytes, int flags) {
  void* memory = mmap(address, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

}  // namespace

size_t pageBytes() {
  static const size_t bytes = size_t(sysconf(_SC_PAGESIZE));
  return bytes;
}

void* mapPages(size_t bytes) {
  void* memory = map(nullptr, bytes, 0);
#ifdef MADV_HUGEPAGE
  if (memory) madvise(memory, bytes, MADV_HUGEPAGE);
#endif
  return memory;
}

void* reservePages(size_t bytes) {
  void* memory = map(nullptr, bytes, MAP_NORESERVE);
#ifdef MADV_NOHUGEPAGE
  // A huge page of which a part is released stays whole until the system runs short, though it no longer counts.
  if (memory) madvise(memory, bytes, MADV_NOHUGEPAGE);
#endif
  return memory;
}

bool commitPages(void*, size_t) { return true; }

bool decommitPages(void* from, size_t bytes) {
#ifdef __linux__
  return madvise(from, bytes, MADV_DONTNEED) == 0;
#else
  // Elsewhere that advice may be taken as a hint; a fresh mapping in its place is none.
  return map(from, bytes, MAP_FIXED | MAP_NORESERVE) != nullptr;
#endif
}

void unmapPages(void* from, size_t bytes) { munmap(from, bytes); }

}  // namespace chairlift

#endif
