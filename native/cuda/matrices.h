// Weights on the device: matrices in the order of fragments, and vectors.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "cuda/device.h"
#include "cuda/kernels/args.h"
#include "model/linear.h"
#include "model/matrix.h"

namespace chairlift {
namespace cuda {

/** The name of a matrix's format among kernels: see kernels/formats.h. */
std::string formatName(const MatrixView& matrix);

/** A matrix on the device, filled panel by panel from the processor's layout. */
class DeviceMatrix {
 public:
  DeviceMatrix(Device& device, const PackedMatrix& shape, int panels, int members);

  static size_t bytesOf(const PackedMatrix& shape, int panels, int members);

  const MatrixView& view() const { return view_; }
  /** Takes `count` panels in the processor's layout, from `firstPanel` of all members' on; `staged` is for those on their way. */
  void fill(const uint8_t* panels, int firstPanel, int count, DeviceMemory& staged);

 private:
  Device& device_;
  MatrixView view_{};
  size_t panelBytes_;
  DeviceMemory memory_;
};

/** What a model's parts are on the device, by their address in the description of the model. */
class DeviceWeights {
 public:
  explicit DeviceWeights(Device& device) : device_(device) {}

  void add(const std::shared_ptr<Matrix>& matrix, std::unique_ptr<DeviceMatrix> own) {
    kept_.push_back(matrix);
    matrices_[matrix.get()] = std::move(own);
  }
  /** Packs consecutive rows of a member, from a multiple of 16 on, as `packRows` does. */
  void fill(ThreadPool& pool, const Matrix& matrix, int member, int firstRow, const uint8_t* rows, int count);
  /** Releases what was needed to fill matrices. */
  void endFilling() {
    staged_ = DeviceMemory();
    packed_ = PageBuffer();
  }
  const MatrixView& matrix(const Matrix& matrix) const { return matrices_.at(&matrix)->view(); }
  /** Uploads a vector once; null for an empty one. The vector must live as long as this. */
  const float* vector(const std::vector<float>& values);

 private:
  Device& device_;
  std::vector<std::shared_ptr<Matrix>> kept_;
  // Panels on their way, on the processor and on the device.
  PageBuffer packed_;
  DeviceMemory staged_;
  std::unordered_map<const Matrix*, std::unique_ptr<DeviceMatrix>> matrices_;
  std::unordered_map<const float*, DeviceMemory> vectors_;
};

}  // namespace cuda
}  // namespace chairlift
