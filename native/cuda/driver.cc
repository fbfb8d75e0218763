// See driver.h.

#include "cuda/driver.h"

#include "cuda/device.h"
#ifdef _WIN32
#include "system/windows.h"
#else
#include <dlfcn.h>
#endif

namespace chairlift {
namespace cuda {

namespace {

#ifdef _WIN32
constexpr const char* library = "nvcuda.dll";
void* openLibrary() { return LoadLibraryA(library); }
void* find(void* opened, const char* name) {
  return reinterpret_cast<void*>(GetProcAddress(static_cast<HMODULE>(opened), name));
}
#else
constexpr const char* library = "libcuda.so.1";
void* openLibrary() { return dlopen(library, RTLD_NOW | RTLD_LOCAL); }
void* find(void* opened, const char* name) { return dlsym(opened, name); }
#endif

// CUDA 12.0, whose PTX the kernels are kept in: see scripts/cuda-kernels.js.
constexpr int leastVersion = 12000;

/** What the driver is too old for is told by name. */
Driver loadDriver() {
#ifdef __APPLE__
  throw DeviceError("macOS has no CUDA");
#endif
  void* const opened = openLibrary();
  if (!opened) throw DeviceError(std::string("there is no NVIDIA driver: ") + library + " does not open");
  Driver driver;
#define CHAIRLIFT_LOAD(name, symbol, parameters)                                                                       \
  driver.name = reinterpret_cast<decltype(driver.name)>(find(opened, symbol));                                         \
  if (!driver.name) throw DeviceError("the NVIDIA driver is too old: it has no " symbol " (version 525 or newer has)");
  CHAIRLIFT_DRIVER_FUNCTIONS(CHAIRLIFT_LOAD)
#undef CHAIRLIFT_LOAD
  driver.check(driver.cuInit(0), "cuInit");
  int version = 0;
  driver.check(driver.cuDriverGetVersion(&version), "cuDriverGetVersion");
  if (version < leastVersion) {
    throw DeviceError("the NVIDIA driver is too old: it is for CUDA " + std::to_string(version / 1000) + "." +
                      std::to_string(version % 1000 / 10) + ", and 12.0 is needed (version 525 or newer has)");
  }
  return driver;
}

}  // namespace

void Driver::check(CUresult result, const char* call) const {
  if (result == CUDA_SUCCESS) return;
  const char *name = "an unknown error", *text = "";
  cuGetErrorName(result, &name);
  cuGetErrorString(result, &text);
  const std::string message = std::string("CUDA: ") + call + ": " + text + " (" + name + ")";
  if (result == CUDA_ERROR_OUT_OF_MEMORY) throw OutOfMemory(message);
  throw DeviceError(message);
}

const Driver& openDriver() {
  static const Driver driver = loadDriver();
  return driver;
}

}  // namespace cuda
}  // namespace chairlift
