// A device that runs kernels on the processor: slow, and exact.

#include "cuda/simulator/simulated-device.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "cuda/simulator/threads.h"
#include "system/reserved-memory.h"

namespace chairlift {
namespace cuda {

namespace {

struct Launch {
  const SimulatedKernel* kernel;
  Grid grid;
  std::vector<uint8_t> args;
};

struct SimulatedGraph final : Graph {
  std::vector<Launch> launches;
};

class SimulatedDevice final : public Device {
 public:
  const std::string& name() const override { return name_; }
  int multiprocessors() const override { return 4; }
  // Tests give it less, as older GPUs have.
  size_t sharedBytes() const override {
    const char* given = std::getenv("CHAIRLIFT_SIMULATED_GPU_SHARED_BYTES");
    return given ? size_t(std::strtoull(given, nullptr, 10)) : size_t(227) << 10;
  }
  size_t freeBytes() const override { return totalBytes() - std::min(totalBytes(), usedBytes_); }
  // Tests give it less, at any time.
  size_t totalBytes() const override {
    const char* given = std::getenv("CHAIRLIFT_SIMULATED_GPU_BYTES");
    return given ? size_t(std::strtoull(given, nullptr, 10)) : size_t(4) << 30;
  }

  void* allocate(size_t bytes) override {
    const size_t whole = (bytes + 255) / 256 * 256 + 256;
    if (usedBytes_ + whole > totalBytes()) throw OutOfMemory("the simulated GPU has no memory left (CUDA_ERROR_OUT_OF_MEMORY)");
    auto* memory = static_cast<uint8_t*>(std::aligned_alloc(256, whole));
    // What nobody has written reads as NaN.
    memset(memory, 0xff, whole);
    memcpy(memory, &whole, sizeof whole);
    usedBytes_ += whole;
    return memory + 256;
  }
  void release(void* memory) override {
    auto* start = static_cast<uint8_t*>(memory) - 256;
    size_t whole;
    memcpy(&whole, start, sizeof whole);
    usedBytes_ -= whole;
    std::free(start);
  }

  size_t pageBytes() const override { return 64 << 10; }
  void* reserve(size_t bytes) override {
    reserved_.push_back(std::make_unique<ReservedMemory>(bytes));
    return reserved_.back()->data();
  }
  void unreserve(void* memory, size_t) override {
    const auto isIt = [&](const auto& one) { return one->data() == memory; };
    reserved_.erase(std::remove_if(reserved_.begin(), reserved_.end(), isIt), reserved_.end());
  }
  bool commit(void* at, size_t bytes) override {
    if (usedBytes_ + bytes > totalBytes()) return false;
    usedBytes_ += bytes;
    each(at, [&](ReservedMemory& memory, size_t from) { memory.commit(from, bytes); });
    memset(at, 0xff, bytes);
    return true;
  }
  void decommit(void* at, size_t bytes) override {
    usedBytes_ -= bytes;
    each(at, [&](ReservedMemory& memory, size_t from) { memory.release(from, bytes); });
  }

  void upload(void* to, const void* from, size_t bytes) override { memcpy(to, from, bytes); }
  void download(void* to, const void* from, size_t bytes) override { memcpy(to, from, bytes); }
  void clear(void* at, size_t bytes) override { memset(at, 0, bytes); }
  void copy(void* to, const void* from, size_t bytes) override { memmove(to, from, bytes); }

  void launch(const char* kernel, const Grid& grid, const void* args, size_t argBytes) override {
    const SimulatedKernel* found = findSimulated(kernel);
    if (!found) throw DeviceError(std::string("no kernel named ") + kernel);
    const auto* bytes = static_cast<const uint8_t*>(args);
    Launch launch{found, grid, {bytes, bytes + argBytes}};
    if (recording_) recording_->launches.push_back(std::move(launch));
    else run(launch);
  }

  std::unique_ptr<Graph> record(const std::function<void()>& run) override {
    auto graph = std::make_unique<SimulatedGraph>();
    recording_ = graph.get();
    try {
      run();
    } catch (...) {
      recording_ = nullptr;
      throw;
    }
    recording_ = nullptr;
    return graph;
  }
  void replay(Graph& graph) override {
    for (const Launch& launch : static_cast<SimulatedGraph&>(graph).launches) run(launch);
  }

  bool isIdle() override { return true; }
  // Tests lose it.
  void wait() override {
    if (std::getenv("CHAIRLIFT_SIMULATED_GPU_LOST")) throw DeviceError("CUDA: the simulated GPU is lost");
  }

 private:
  static void run(const Launch& launch) {
    const Grid& grid = launch.grid;
    simulate(*launch.kernel, grid.x, grid.y, grid.threads, grid.sharedBytes, launch.args.data());
  }

  template <class Use>
  void each(void* at, const Use& use) {
    for (auto& one : reserved_) {
      uint8_t* const start = one->data();
      const auto* place = static_cast<const uint8_t*>(at);
      if (place >= start && place < start + one->bytes()) use(*one, size_t(place - start));
    }
  }

  const std::string name_ = "a simulated GPU";
  size_t usedBytes_ = 0;
  std::vector<std::unique_ptr<ReservedMemory>> reserved_;
  SimulatedGraph* recording_ = nullptr;
};

}  // namespace

std::unique_ptr<Device> simulatedDevice() { return std::make_unique<SimulatedDevice>(); }

}  // namespace cuda
}  // namespace chairlift
