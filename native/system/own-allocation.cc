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

void* orNull(size_t bytes) { return malloc(bytes > 0 ? bytes : 1); }

void* orNull(size_t bytes, std::align_val_t alignment) {
  const size_t least = sizeof(void*), wanted = size_t(alignment), boundary = wanted > least ? wanted : least;
  void* memory = nullptr;
  return posix_memalign(&memory, boundary, bytes > 0 ? bytes : 1) == 0 ? memory : nullptr;
}

}  // namespace

}  // namespace chairlift

// All of them: for one that is missing the linker takes the C++ library's file of them, whose others it offers.
// clang-format off
void* operator new(size_t bytes) { return chairlift::orThrow(chairlift::orNull(bytes)); }
void* operator new[](size_t bytes) { return chairlift::orThrow(chairlift::orNull(bytes)); }
void* operator new(size_t bytes, std::align_val_t alignment) { return chairlift::orThrow(chairlift::orNull(bytes, alignment)); }
void* operator new[](size_t bytes, std::align_val_t alignment) { return chairlift::orThrow(chairlift::orNull(bytes, alignment)); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return chairlift::orNull(bytes); }
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return chairlift::orNull(bytes); }
void* operator new(size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept { return chairlift::orNull(bytes, alignment); }
void* operator new[](size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept { return chairlift::orNull(bytes, alignment); }
void operator delete(void* memory) noexcept { free(memory); }
void operator delete[](void* memory) noexcept { free(memory); }
void operator delete(void* memory, size_t) noexcept { free(memory); }
void operator delete[](void* memory, size_t) noexcept { free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { free(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { free(memory); }
void operator delete(void* memory, std::align_val_t, const std::nothrow_t&) noexcept { free(memory); }
void operator delete[](void* memory, std::align_val_t, const std::nothrow_t&) noexcept { free(memory); }
// clang-format on

// The compiler declares them visible before any line of ours, and lets no later declaration say otherwise.
__asm__(
    ".private_extern __Znwm, __Znam, __ZnwmSt11align_val_t, __ZnamSt11align_val_t\n"
    ".private_extern __ZnwmRKSt9nothrow_t, __ZnamRKSt9nothrow_t\n"
    ".private_extern __ZnwmSt11align_val_tRKSt9nothrow_t, __ZnamSt11align_val_tRKSt9nothrow_t\n"
    ".private_extern __ZdlPv, __ZdaPv, __ZdlPvm, __ZdaPvm\n"
    ".private_extern __ZdlPvSt11align_val_t, __ZdaPvSt11align_val_t, __ZdlPvmSt11align_val_t, __ZdaPvmSt11align_val_t\n"
    ".private_extern __ZdlPvRKSt9nothrow_t, __ZdaPvRKSt9nothrow_t\n"
    ".private_extern __ZdlPvSt11align_val_tRKSt9nothrow_t, __ZdaPvSt11align_val_tRKSt9nothrow_t\n");

#endif
