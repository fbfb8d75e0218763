// See probe.h.

#include "addon/probe.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <vector>

#include "model/matrix.h"
#include "model/tiled-rows.h"
#include "system/page-buffer.h"
#include "system/thread-pool.h"

namespace chairlift {

namespace {

void packAll(Matrix& matrix, const uint8_t* weights) {
  for (int panel = 0; panel < matrix.panels(); panel++) {
    const int row = panel * panelColumns;
    if (!matrix.packPanelTo(matrix.panelAt(size_t(panel)), weights + size_t(row) * matrix.rowBytes(),
                          std::min(panelColumns, matrix.outputs() - row))) {
      throw std::runtime_error(notFinite);
    }
  }
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

void probeUnpack(const SourceFormat& format, const uint8_t* weights, int outputs, int inputs, float* out) {
  Matrix matrix(format, outputs, inputs);
  packAll(matrix, weights);
  for (int row = 0; row < outputs; row++) matrix.unpackRow(row, out + size_t(row) * size_t(inputs));
}

void probeMultiply(const KernelTable& kernels, const SourceFormat& format, const uint8_t* weights, int outputs,
                   int inputs, const float* x, size_t xLength, float* out) {
  Matrix matrix(format, outputs, inputs);
  packAll(matrix, weights);
  const TiledRows input(kernels, x, int(xLength / size_t(inputs)), inputs);
  kernels.multiply(matrix.member(), input.view, 0, matrix.panels(), nullptr, out, size_t(outputs));
}

ProductTiming probeTime(const KernelTable& kernels, const SourceFormat& format, int outputs, int inputs, int rows,
                        int threads, int repeats) {
  Matrix matrix(format, outputs, inputs);
  // The same pattern everywhere: speed does not depend on the values, as long as no float is subnormal.
  std::vector<uint8_t> weights(matrix.rowBytes() * panelColumns, 0x3c);
  for (int panel = 0; panel < matrix.panels(); panel++) {
    (void)matrix.packPanelTo(matrix.panelAt(size_t(panel)), weights.data(), std::min(panelColumns, outputs - panel * panelColumns));
  }
  std::vector<float> x(size_t(rows) * size_t(inputs));
  for (size_t i = 0; i < x.size(); i++) x[i] = float(int(i % 17) - 8) / 8.0f;
  const TiledRows input(kernels, x.data(), rows, inputs);
  std::vector<float> out(size_t(rows) * size_t(outputs));
  ThreadPool pool(threads);
  std::vector<double> times;
  for (int i = 0; i < repeats; i++) {
    const double start = now();
    pool.forEachInRuns("product", matrix.panels(), 2, [&](int begin, int end, int) {
      kernels.multiply(matrix.member(), input.view, begin, end, nullptr, out.data(), size_t(outputs));
    });
    times.push_back(now() - start);
  }
  std::sort(times.begin(), times.end());
  return {times[times.size() / 2], matrix.bytes()};
}

double probeReadBandwidth(int threads, size_t bytes) {
  constexpr size_t lineWords = 64 / sizeof(uint64_t), pieceWords = size_t(1) << 17, aheadWords = 8192 / sizeof(uint64_t);
  PageBuffer buffer(bytes);
  uint64_t* words = reinterpret_cast<uint64_t*>(buffer.data());
  ThreadPool pool(threads);
  std::vector<uint64_t> sums(size_t(pool.threads()) * lineWords);
  // Reads one word of each cache line and prefetches: measures memory, not a loop of additions.
  const auto sweep = [&](bool write) {
    pool.forEachInRuns("read memory", int(bytes / sizeof(uint64_t) / pieceWords), 1, [&](int begin, int end, int worker) {
      uint64_t sum = 0;
      for (size_t i = size_t(begin) * pieceWords; i < size_t(end) * pieceWords; i += lineWords) {
        __builtin_prefetch(words + i + aheadWords);
        if (write) words[i] = i;
        else sum += words[i];
      }
      sums[size_t(worker) * lineWords] += sum;
    });
  };
  sweep(true);
  std::vector<double> times;
  for (int i = 0; i < 5; i++) {
    const double start = now();
    sweep(false);
    times.push_back(now() - start);
  }
  std::sort(times.begin(), times.end());
  // Uses the sums, so that the compiler leaves no pass out.
  return sums[0] == 1 ? 0 : double(bytes) / times[2];
}

}  // namespace chairlift
