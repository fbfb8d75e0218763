// A GPU as the CUDA backend sees it: memory, kernels and graphs of them, all in one order. The driver's in driver-device.h; tests
// run a simulated one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

namespace chairlift {
namespace cuda {

inline size_t roundUp(size_t n, size_t to) { return (n + to - 1) / to * to; }

inline int divideUp(int n, int by) { return (n + by - 1) / by; }

/** A failure of the GPU or its driver, in words for a person. */
struct DeviceError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/** The GPU has no memory left. */
struct OutOfMemory : DeviceError {
  using DeviceError::DeviceError;
};

struct Grid {
  int x = 1, y = 1;
  int threads = 32;
  size_t sharedBytes = 0;
};

/** What launches of one kernel took. */
struct KernelTime {
  int launches = 0;
  double microseconds = 0;
};

/** What was launched while it was recorded, to be launched again at once. */
struct Graph {
  virtual ~Graph() = default;
};

class Device {
 public:
  virtual ~Device() = default;

  virtual const std::string& name() const = 0;
  virtual int multiprocessors() const = 0;
  /** The most that a block can have. */
  virtual size_t sharedBytes() const = 0;
  virtual size_t freeBytes() const = 0;
  virtual size_t totalBytes() const = 0;

  // Destructors release, unreserve and decommit: none of these throws, and a lost device takes nothing back.
  virtual void* allocate(size_t bytes) = 0;
  virtual void release(void* memory) = 0;

  /** Addresses without memory, in whole pages of `pageBytes`. */
  virtual size_t pageBytes() const = 0;
  virtual void* reserve(size_t bytes) = 0;
  virtual void unreserve(void* memory, size_t bytes) = 0;
  /** Whether there was memory for it. */
  virtual bool commit(void* at, size_t bytes) = 0;
  virtual void decommit(void* at, size_t bytes) = 0;

  /** `from` may be changed as soon as it returns. */
  virtual void upload(void* to, const void* from, size_t bytes) = 0;
  /** `to` is filled once `wait` has returned. */
  virtual void download(void* to, const void* from, size_t bytes) = 0;
  virtual void clear(void* at, size_t bytes) = 0;
  /** Within the device. */
  virtual void copy(void* to, const void* from, size_t bytes) = 0;

  /** Kernels beside those that it was opened with: an image as openDevice takes it. */
  virtual void addKernels(const void*) {}
  /** Products of this kind of matrices will be launched: their kernels can be compiled now. */
  virtual void prepareProducts(const std::string&) {}
  virtual void launch(const char* kernel, const Grid& grid, const void* args, size_t argBytes) = 0;
  template <class Args>
  void launch(const char* kernel, const Grid& grid, const Args& args) {
    launch(kernel, grid, &args, sizeof args);
  }

  /** Records what `run` launches, without running it. */
  virtual std::unique_ptr<Graph> record(const std::function<void()>& run) = 0;
  virtual void replay(Graph& graph) = 0;

  /** Waits until all is done. */
  virtual void wait() = 0;
  /** Whether `wait` would return at once. */
  virtual bool isIdle() = 0;

  /** Times each kernel that `run` launches, by name, without overlap; empty where the device cannot. */
  virtual std::map<std::string, KernelTime> profile(const std::function<void()>& run) {
    run();
    return {};
  }
};

/** Memory of a device that lives as long as its owner. */
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(Device& device, size_t bytes) : device_(&device), memory_(device.allocate(bytes)), bytes_(bytes) {}
  DeviceMemory(DeviceMemory&& other) noexcept { swap(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    swap(other);
    return *this;
  }
  ~DeviceMemory() {
    if (memory_) device_->release(memory_);
  }

  size_t bytes() const { return bytes_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(memory_);
  }

 private:
  void swap(DeviceMemory& other) {
    std::swap(device_, other.device_);
    std::swap(memory_, other.memory_);
    std::swap(bytes_, other.bytes_);
  }

  Device* device_ = nullptr;
  void* memory_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace cuda
}  // namespace chairlift
