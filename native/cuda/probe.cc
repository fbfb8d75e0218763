// See probe.h.

#include "cuda/probe.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "cuda/work.h"

namespace chairlift {
namespace cuda {

namespace {

// More than the second-level cache of any GPU of today holds.
constexpr size_t uncachedBytes = size_t(300) << 20;
constexpr int mostCopies = 64;

/** A product's matrix and rows on a device. */
class Probe {
 public:
  Probe(Device& device, const ProbedProduct& product)
      : device_(device),
        product_(product),
        pool_(int(std::max(1u, std::thread::hardware_concurrency()))),
        weights_(device),
        work_(device, weights_, layout_, 1e-5f) {
    work_.rows = product.rows;
    work_.multiplier.prefer(product.family);
    stride_ = roundUp(size_t(product.inputs), inputsOfGroup);
    x_ = DeviceMemory(device, size_t(product.rows) * stride_ * sizeof(float));
    out_ = DeviceMemory(device, size_t(product.rows) * size_t(product.outputs) * sizeof(float));
    if (product.tiles.empty()) return;
    const int32_t count = int32_t(product.tiles.size());
    tiles_ = DeviceMemory(device, product.tiles.size() * sizeof(Tile));
    count_ = DeviceMemory(device, sizeof count);
    device.upload(tiles_.as<Tile>(), product.tiles.data(), product.tiles.size() * sizeof(Tile));
    device.upload(count_.as<int32_t>(), &count, sizeof count);
  }

  const Linear& add(const uint8_t* weights) {
    const auto matrix = Matrix::withoutPanels(product_.format, product_.outputs, product_.inputs, product_.members);
    weights_.add(matrix, std::make_unique<DeviceMatrix>(device_, matrix->member(), matrix->panels(), product_.members));
    for (int member = 0; member < product_.members; member++) {
      const uint8_t* rows = weights + size_t(member) * size_t(product_.outputs) * matrix->rowBytes();
      weights_.fill(pool_, *matrix, member, 0, rows, product_.outputs);
    }
    linears_.push_back({{{matrix, {}, 0}}, {}, {}});
    return linears_.back();
  }

  void setRows(const float* x) {
    std::vector<float> padded(size_t(product_.rows) * stride_);
    for (int row = 0; row < product_.rows; row++) {
      const float* from = x + size_t(row) * size_t(product_.inputs);
      std::copy(from, from + product_.inputs, &padded[size_t(row) * stride_]);
    }
    device_.upload(x_.as<float>(), padded.data(), padded.size() * sizeof(float));
  }

  InputView makeInput(const Linear& linear) {
    return work_.multiplier.makeInput(linear, {x_.as<float>(), stride_, product_.inputs}, product_.rows, tiles(), false);
  }
  void multiply(const Linear& linear, const InputView& input) {
    work_.multiplier.multiply(linear, input, product_.rows, out_.as<float>(), size_t(product_.outputs), tiles());
  }
  void readOut(float* to) {
    device_.download(to, out_.as<float>(), size_t(product_.rows) * size_t(product_.outputs) * sizeof(float));
    device_.wait();
  }

 private:
  RowTiles tiles() const { return {tiles_.as<Tile>(), count_.as<int32_t>(), int(product_.tiles.size())}; }

  Device& device_;
  const ProbedProduct& product_;
  const KvLayout layout_{};
  ThreadPool pool_;
  DeviceWeights weights_;
  Work work_;
  size_t stride_;
  DeviceMemory x_, out_, tiles_, count_;
  std::vector<Linear> linears_;
};

}  // namespace

void probeProduct(Device& device, const ProbedProduct& product, const uint8_t* weights, const float* x, float* out) {
  Probe probe(device, product);
  const Linear linear = probe.add(weights);
  probe.setRows(x);
  probe.multiply(linear, probe.makeInput(linear));
  probe.readOut(out);
}

double probeProductTime(Device& device, const ProbedProduct& product, int repeats) {
  Probe probe(device, product);
  const size_t bytes = product.format.rowBytes(product.inputs) * size_t(product.outputs) * size_t(product.members);
  const int copies = std::min(mostCopies, int(uncachedBytes / bytes) + 1);
  // The same pattern everywhere: speed does not depend on the values, as long as no float is subnormal.
  const std::vector<uint8_t> pattern(bytes, 0x3c);
  std::vector<Linear> linears;
  for (int copy = 0; copy < copies; copy++) linears.push_back(probe.add(pattern.data()));
  std::vector<float> x(size_t(product.rows) * size_t(product.inputs));
  for (size_t i = 0; i < x.size(); i++) x[i] = float(int(i % 17) - 8) / 8.0f;
  probe.setRows(x.data());
  const InputView input = probe.makeInput(linears[0]);
  const auto graph = device.record([&] {
    for (int i = 0; i < repeats; i++) probe.multiply(linears[size_t(i % copies)], input);
  });
  std::vector<double> times;
  for (int trial = 0; trial < 7; trial++) {
    device.wait();
    const auto start = std::chrono::steady_clock::now();
    device.replay(*graph);
    device.wait();
    times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / repeats);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

}  // namespace cuda
}  // namespace chairlift
