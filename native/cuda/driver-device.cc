// See driver-device.h.

#include "cuda/driver-device.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "cuda/driver.h"
#include "cuda/kernel-modules.h"

namespace chairlift {
namespace cuda {

namespace {

constexpr int hopper = 90;
// Uploads go through pinned memory in pieces, some on their way while the next is copied.
constexpr size_t stagingBytes = 4 << 20;
// More than a step has uploads: those of the next one do not wait for its end.
constexpr size_t stagingPieces = 8;
// Smaller downloads go through pinned memory, too: the driver would make the thread wait for each.
constexpr size_t pinnedDownloadBytes = 4 << 20;
// KV memory is committed in pieces of this size: each is a call of its own.
constexpr size_t committedBytes = 32 << 20;

CUdeviceptr addressOf(const void* memory) { return reinterpret_cast<CUdeviceptr>(memory); }

int attributeOf(const Driver& driver, CUdevice device, int attribute) {
  int value = 0;
  driver.check(driver.cuDeviceGetAttribute(&value, attribute, device), "cuDeviceGetAttribute");
  return value;
}

DeviceInfo infoOf(const Driver& driver, CUdevice device) {
  DeviceInfo info;
  char name[256] = {};
  driver.check(driver.cuDeviceGetName(name, sizeof name, device), "cuDeviceGetName");
  info.name = name;
  info.capability = 10 * attributeOf(driver, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
                    attributeOf(driver, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  driver.check(driver.cuDeviceTotalMem(&info.totalBytes, device), "cuDeviceTotalMem");
  return info;
}

struct DriverGraph final : Graph {
  DriverGraph(const Driver& itsDriver, CUgraphExec itsExecutable) : driver(itsDriver), executable(itsExecutable) {}
  ~DriverGraph() override { driver.cuGraphExecDestroy(executable); }

  const Driver& driver;
  const CUgraphExec executable;
};

class DriverDevice final : public Device {
 public:
  DriverDevice(const Driver& driver, CUdevice device, const void* image) : driver_(driver), device_(device) {
    const DeviceInfo info = infoOf(driver, device);
    name_ = info.name;
    totalBytes_ = info.totalBytes;
    capability_ = info.capability;
    multiprocessors_ = attributeOf(driver, device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    sharedBytes_ = size_t(attributeOf(driver, device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
    check(driver.cuDevicePrimaryCtxRetain(&context_, device), "cuDevicePrimaryCtxRetain");
    try {
      use();
      kernels_.push_back(std::make_unique<KernelModules>(driver, image));
      check(driver.cuStreamCreate(&stream_, 1), "cuStreamCreate");
    } catch (...) {
      driver.cuDevicePrimaryCtxRelease(device);
      throw;
    }
  }
  ~DriverDevice() override {
    driver_.cuCtxSetCurrent(context_);
    driver_.cuStreamSynchronize(stream_);
    for (const Piece& piece : staging_) {
      driver_.cuEventDestroy(piece.done);
      driver_.cuMemFreeHost(piece.memory);
    }
    if (downloads_) driver_.cuMemFreeHost(downloads_);
    driver_.cuStreamDestroy(stream_);
    kernels_.clear();
    driver_.cuDevicePrimaryCtxRelease(device_);
  }

  void addKernels(const void* image) override {
    use();
    kernels_.push_back(std::make_unique<KernelModules>(driver_, image));
  }
  void prepareProducts(const std::string& format) override {
    use();
    kernels_.front()->load(format);
  }

  const std::string& name() const override { return name_; }
  int multiprocessors() const override { return multiprocessors_; }
  size_t sharedBytes() const override { return sharedBytes_; }
  size_t freeBytes() const override {
    use();
    size_t free = 0, total = 0;
    check(driver_.cuMemGetInfo(&free, &total), "cuMemGetInfo");
    return free;
  }
  size_t totalBytes() const override { return totalBytes_; }

  void* allocate(size_t bytes) override {
    use();
    CUdeviceptr memory = 0;
    check(driver_.cuMemAlloc(&memory, std::max<size_t>(bytes, 256)), "cuMemAlloc");
    return reinterpret_cast<void*>(memory);
  }
  void release(void* memory) override {
    driver_.cuCtxSetCurrent(context_);
    driver_.cuMemFree(addressOf(memory));
  }

  size_t pageBytes() const override { return committedBytes; }
  void* reserve(size_t bytes) override {
    use();
    CUdeviceptr memory = 0;
    check(driver_.cuMemAddressReserve(&memory, bytes, 0, 0, 0), "cuMemAddressReserve");
    return reinterpret_cast<void*>(memory);
  }
  void unreserve(void* memory, size_t bytes) override {
    driver_.cuCtxSetCurrent(context_);
    driver_.cuMemAddressFree(addressOf(memory), bytes);
  }
  bool commit(void* at, size_t bytes) override {
    use();
    const CUmemAllocationProp properties = ownMemory();
    const CUmemAccessDesc access{properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    for (size_t done = 0; done < bytes; done += committedBytes) {
      const CUdeviceptr page = addressOf(at) + done;
      CUmemHandle handle = 0;
      const CUresult created = driver_.cuMemCreate(&handle, committedBytes, &properties, 0);
      if (created == CUDA_ERROR_OUT_OF_MEMORY) {
        if (done > 0) decommit(at, done);
        return false;
      }
      check(created, "cuMemCreate");
      check(driver_.cuMemMap(page, committedBytes, 0, handle, 0), "cuMemMap");
      check(driver_.cuMemSetAccess(page, committedBytes, &access, 1), "cuMemSetAccess");
      // The mapping keeps the memory.
      check(driver_.cuMemRelease(handle), "cuMemRelease");
    }
    return true;
  }
  void decommit(void* at, size_t bytes) override {
    driver_.cuCtxSetCurrent(context_);
    driver_.cuStreamSynchronize(stream_);
    for (size_t done = 0; done < bytes; done += committedBytes) driver_.cuMemUnmap(addressOf(at) + done, committedBytes);
  }

  void upload(void* to, const void* from, size_t bytes) override {
    use();
    for (size_t done = 0; done < bytes;) {
      Piece& piece = nextPiece();
      const size_t own = std::min(bytes - done, stagingBytes);
      memcpy(piece.memory, static_cast<const uint8_t*>(from) + done, own);
      check(driver_.cuMemcpyHtoDAsync(addressOf(to) + done, piece.memory, own, stream_), "cuMemcpyHtoDAsync");
      check(driver_.cuEventRecord(piece.done, stream_), "cuEventRecord");
      done += own;
    }
  }
  void download(void* to, const void* from, size_t bytes) override {
    use();
    void* target = to;
    if (pendingBytes_ + bytes <= pinnedDownloadBytes) {
      if (!downloads_) check(driver_.cuMemAllocHost(&downloads_, pinnedDownloadBytes), "cuMemAllocHost");
      target = static_cast<uint8_t*>(downloads_) + pendingBytes_;
      pending_.push_back({to, target, bytes});
      pendingBytes_ += bytes;
    }
    check(driver_.cuMemcpyDtoHAsync(target, addressOf(from), bytes, stream_), "cuMemcpyDtoHAsync");
  }
  void clear(void* at, size_t bytes) override {
    use();
    check(driver_.cuMemsetD8Async(addressOf(at), 0, bytes, stream_), "cuMemsetD8Async");
  }
  void copy(void* to, const void* from, size_t bytes) override {
    use();
    check(driver_.cuMemcpyDtoDAsync(addressOf(to), addressOf(from), bytes, stream_), "cuMemcpyDtoDAsync");
  }

  using Device::launch;
  void launch(const char* kernel, const Grid& grid, const void* args, size_t) override {
    use();
    Function& function = functionOf(kernel);
    if (grid.sharedBytes > function.sharedBytes) {
      check(driver_.cuFuncSetAttribute(function.handle, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, int(grid.sharedBytes)),
            "cuFuncSetAttribute");
      function.sharedBytes = grid.sharedBytes;
    }
    CUlaunchAttribute overlap{};
    overlap.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    overlap.value = 1;
    CUlaunchConfig config{unsigned(grid.x), unsigned(grid.y), 1, unsigned(grid.threads), 1, 1, unsigned(grid.sharedBytes),
                          stream_, &overlap, capability_ >= hopper ? 1u : 0u};
    void* parameters[] = {const_cast<void*>(args)};
    if (timed_) timed_->push_back({kernel, timeHere()});
    check(driver_.cuLaunchKernelEx(&config, function.handle, parameters, nullptr), kernel);
  }

  std::unique_ptr<Graph> record(const std::function<void()>& run) override {
    use();
    // Relaxed: other threads may allocate meanwhile.
    check(driver_.cuStreamBeginCapture(stream_, 2), "cuStreamBeginCapture");
    CUgraph graph = nullptr;
    try {
      run();
    } catch (...) {
      driver_.cuStreamEndCapture(stream_, &graph);
      if (graph) driver_.cuGraphDestroy(graph);
      throw;
    }
    check(driver_.cuStreamEndCapture(stream_, &graph), "cuStreamEndCapture");
    CUgraphExec executable = nullptr;
    const CUresult made = driver_.cuGraphInstantiateWithFlags(&executable, graph, 0);
    driver_.cuGraphDestroy(graph);
    check(made, "cuGraphInstantiateWithFlags");
    return std::make_unique<DriverGraph>(driver_, executable);
  }
  void replay(Graph& graph) override {
    use();
    check(driver_.cuGraphLaunch(static_cast<DriverGraph&>(graph).executable, stream_), "cuGraphLaunch");
  }

  void wait() override {
    use();
    check(driver_.cuStreamSynchronize(stream_), "cuStreamSynchronize");
    for (const Download& one : pending_) memcpy(one.to, one.from, one.bytes);
    pending_.clear();
    pendingBytes_ = 0;
  }

  bool isIdle() override {
    use();
    const CUresult state = driver_.cuStreamQuery(stream_);
    if (state != CUDA_ERROR_NOT_READY) check(state, "cuStreamQuery");
    return state == CUDA_SUCCESS;
  }

  /** From the start of each kernel to the start of the next. */
  std::map<std::string, KernelTime> profile(const std::function<void()>& run) override {
    std::vector<Timed> timed;
    timed_ = &timed;
    run();
    timed_ = nullptr;
    timed.push_back({"", timeHere()});
    wait();
    std::map<std::string, KernelTime> times;
    for (size_t i = 0; i + 1 < timed.size(); i++) {
      float milliseconds = 0;
      check(driver_.cuEventElapsedTime(&milliseconds, timed[i].start, timed[i + 1].start), "cuEventElapsedTime");
      KernelTime& own = times[timed[i].kernel];
      own.launches++;
      own.microseconds += double(milliseconds) * 1000;
    }
    for (const Timed& one : timed) driver_.cuEventDestroy(one.start);
    return times;
  }

 private:
  struct Piece {
    void* memory;
    CUevent done;
  };
  struct Timed {
    std::string kernel;
    CUevent start;
  };
  struct Function {
    CUfunction handle;
    // What a kernel may have without being asked.
    size_t sharedBytes = 48 << 10;
  };
  struct Download {
    void* to;
    const void* from;
    size_t bytes;
  };

  void check(CUresult result, const char* call) const { driver_.check(result, call); }
  /** Contexts belong to threads, and steps come from any. */
  void use() const { check(driver_.cuCtxSetCurrent(context_), "cuCtxSetCurrent"); }

  CUmemAllocationProp ownMemory() const {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device_};
    return properties;
  }

  Piece& nextPiece() {
    if (staging_.size() < stagingPieces) {
      Piece piece{};
      check(driver_.cuMemAllocHost(&piece.memory, stagingBytes), "cuMemAllocHost");
      check(driver_.cuEventCreate(&piece.done, 2), "cuEventCreate");
      staging_.push_back(piece);
      return staging_.back();
    }
    Piece& piece = staging_[next_++ % stagingPieces];
    check(driver_.cuEventSynchronize(piece.done), "cuEventSynchronize");
    return piece;
  }

  CUevent timeHere() {
    CUevent event = nullptr;
    check(driver_.cuEventCreate(&event, 0), "cuEventCreate");
    check(driver_.cuEventRecord(event, stream_), "cuEventRecord");
    return event;
  }

  CUfunction find(const char* kernel) {
    for (const auto& modules : kernels_) {
      if (const CUfunction found = modules->find(kernel)) return found;
    }
    throw DeviceError(std::string("CUDA: no kernel named ") + kernel);
  }

  Function& functionOf(const char* kernel) {
    auto found = functions_.find(kernel);
    if (found == functions_.end()) {
      Function function{};
      function.sharedBytes = 48 << 10;
      function.handle = find(kernel);
      found = functions_.emplace(kernel, function).first;
    }
    return found->second;
  }

  const Driver& driver_;
  const CUdevice device_;
  CUcontext context_ = nullptr;
  std::vector<std::unique_ptr<KernelModules>> kernels_;
  CUstream stream_ = nullptr;
  std::string name_;
  int capability_ = 0, multiprocessors_ = 0;
  size_t sharedBytes_ = 0, totalBytes_ = 0;
  std::vector<Piece> staging_;
  size_t next_ = 0;
  void* downloads_ = nullptr;
  std::vector<Download> pending_;
  size_t pendingBytes_ = 0;
  // While kernels are timed.
  std::vector<Timed>* timed_ = nullptr;
  std::unordered_map<std::string, Function> functions_;
};

}  // namespace

std::vector<DeviceInfo> listDevices() {
  const Driver& driver = openDriver();
  int count = 0;
  driver.check(driver.cuDeviceGetCount(&count), "cuDeviceGetCount");
  std::vector<DeviceInfo> all;
  for (int ordinal = 0; ordinal < count; ordinal++) {
    CUdevice device = 0;
    driver.check(driver.cuDeviceGet(&device, ordinal), "cuDeviceGet");
    all.push_back(infoOf(driver, device));
  }
  return all;
}

size_t freeBytesOf(int ordinal) {
  const Driver& driver = openDriver();
  CUdevice device = 0;
  driver.check(driver.cuDeviceGet(&device, ordinal), "cuDeviceGet");
  CUcontext context = nullptr;
  driver.check(driver.cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
  size_t free = 0, total = 0;
  CUresult result = driver.cuCtxSetCurrent(context);
  if (result == CUDA_SUCCESS) result = driver.cuMemGetInfo(&free, &total);
  // Where no model holds the context, it ends here.
  driver.cuCtxSetCurrent(nullptr);
  driver.cuDevicePrimaryCtxRelease(device);
  driver.check(result, "cuMemGetInfo");
  return free;
}

std::unique_ptr<Device> openDevice(int ordinal, const void* image) {
  const Driver& driver = openDriver();
  CUdevice device = 0;
  driver.check(driver.cuDeviceGet(&device, ordinal), "cuDeviceGet");
  return std::make_unique<DriverDevice>(driver, device, image);
}

}  // namespace cuda
}  // namespace chairlift
