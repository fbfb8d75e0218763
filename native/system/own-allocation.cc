// On macOS a library's allocation operators are shared by all that the process has loaded, unless they are hidden: without
// these, the ones of the C++ library inside a prebuilt addon would be offered to Node, or be replaced by Node's.

#ifdef __APPLE__

#include <cstdlib>
#include <new>

namespace chairlift {

namespace {

void* orThrow(void* memory) {
  if (!memory) throw std::bad_alloc();
  return memory;
}

void* allocate(size_t bytes) { return orThrow(malloc(bytes > 0 ? bytes : 1)); }

void* allocate(size_t bytes, std::align_val_t alignment) {
  const size_t least = sizeof(void*), wanted = size_t(alignment), boundary = wanted > least ? wanted : least;
  void* memory = nullptr;
  return orThrow(posix_memalign(&memory, boundary, bytes > 0 ? bytes : 1) == 0 ? memory : nullptr);
}

}  // namespace

}  // namespace chairlift

// clang-format off
void* operator new(size_t bytes) { return chairlift::allocate(bytes); }
void* operator new[](size_t bytes) { return chairlift::allocate(bytes); }
void* operator new(size_t bytes, std::align_val_t alignment) { return chairlift::allocate(bytes, alignment); }
void* operator new[](size_t bytes, std::align_val_t alignment) { return chairlift::allocate(bytes, alignment); }
void operator delete(void* memory) noexcept { free(memory); }
void operator delete[](void* memory) noexcept { free(memory); }
void operator delete(void* memory, size_t) noexcept { free(memory); }
void operator delete[](void* memory, size_t) noexcept { free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { free(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { free(memory); }
// clang-format on

// The compiler declares them visible before any line of ours, and lets no later declaration say otherwise.
__asm__(
    ".private_extern __Znwm, __Znam, __ZnwmSt11align_val_t, __ZnamSt11align_val_t\n"
    ".private_extern __ZdlPv, __ZdaPv, __ZdlPvm, __ZdaPvm\n"
    ".private_extern __ZdlPvSt11align_val_t, __ZdaPvSt11align_val_t, __ZdlPvmSt11align_val_t, __ZdaPvmSt11align_val_t\n");

#endif
