// A view on its way through a tower on the device: see tower/tower-run.h. Operations are launched, and not waited for; memory is
// taken with the first of them.
#pragma once

#include "cuda/tower/view-attention.h"

namespace chairlift {
namespace cuda {

class ViewRun {
 public:
  /** `rgb`: three bytes a pixel, row by row. */
  ViewRun(std::shared_ptr<CudaTower> tower, TowerProgram program, std::vector<uint8_t> rgb);
  ~ViewRun();

  const TowerProgram& program() const { return program_; }
  /** Launches rows of one operation, once all rows of those before it were. Throws where there are no such rows. */
  void run(int operation, int first, int count);
  void wait() { tower_->device().wait(); }
  /** Waits for the values of an output, row by row. */
  void read(int output, float* to);

 private:
  /** What a view has on the device. */
  struct Opened {
    Opened(CudaTower& tower, const TowerProgram& program, const std::vector<uint8_t>& rgb);

    ViewMaps maps;
    ViewLists lists;
    ViewAttention attention;
    DeviceMemory rgb;
    std::vector<DeviceMemory> buffers;
  };

  Opened& opened();
  DeviceRows view(const BufferRows& rows);
  void runPatches(const TowerOperation& operation, int first, int count);
  void runRows(const TowerOperation& operation, int first, int count);
  void addTable(int index, const TowerOperation& operation, int first, int count);
  void gather(int index, const TowerOperation& operation, int first, int count);
  void runBranch(const TowerOperation& operation, int first, int count);
  /** Adds rows to those of a stream, in this order where there is one. */
  void add(const DeviceRows& added, int count, const DeviceRows& stream, const int32_t* order, const TowerBranch* branch,
           float epsilon);

  const std::shared_ptr<CudaTower> tower_;
  const TowerProgram program_;
  const std::vector<uint8_t> rgb_;
  std::unique_ptr<Opened> opened_;
};

}  // namespace cuda
}  // namespace chairlift
