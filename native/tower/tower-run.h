// A view on its way through a tower: the operations of its program, each in pieces of rows. Every row has the same bits, however
// operations are cut.
#pragma once

#include <memory>
#include <vector>

#include "tower/program.h"
#include "tower/row-maps.h"
#include "tower/view-attention.h"

namespace chairlift {

class TowerRun {
 public:
  /** `rgb`: three bytes a pixel, row by row. */
  TowerRun(std::shared_ptr<const Tower> tower, TowerProgram program, std::vector<uint8_t> rgb, const KernelTable& kernels,
           std::shared_ptr<ThreadPool> pool);

  /** Of one operation, once all rows of those before it are computed. Throws where there are no such rows. */
  void run(int operation, int first, int count);

  const TowerProgram& program() const { return program_; }
  /** Values of an output, row by row. */
  void read(int output, float* to) const;

 private:
  RowView view(const BufferRows& rows) const;
  void runPatches(const TowerOperation& operation, int first, int count);
  void readPatch(const PatchMaps& patches, int row, int column, float* to) const;
  void runRows(const TowerOperation& operation, int first, int count);
  void addTable(const TowerOperation& operation, int first, int count);
  void gather(const TowerOperation& operation, int first, int count);
  void runBranch(const TowerOperation& operation, int first, int count);
  /** Adds a branch's rows to those of the stream; `order` says which, from the first on, or is null. */
  void addBranch(const TowerBranch& branch, float epsilon, const RowView& added, int count, const RowView& stream,
                 const int32_t* order);

  const std::shared_ptr<const Tower> tower_;
  const TowerProgram program_;
  const std::vector<uint8_t> rgb_;
  const std::shared_ptr<ThreadPool> pool_;
  RowMaps maps_;
  ViewAttention attention_;
  std::vector<RowBuffer> buffers_;
  RowBuffer patches_, added_;
};

}  // namespace chairlift
