// Rows of activations and their int8 tiles, for kernels that are run on their own.
#pragma once

#include <algorithm>
#include <vector>

#include "kernels/kernels.h"
#include "system/page-buffer.h"

namespace chairlift {

struct TiledRows {
  TiledRows(const KernelTable& kernels, const float* from, int rows, int inputs)
      : values(from, from + size_t(rows) * size_t(inputs)) {
    const size_t groups = size_t(inputs / groupInputs), tiles = size_t(rows + tileRows - 1) / tileRows;
    codes = PageBuffer(tiles * groups * groupCodes);
    sides = PageBuffer(tiles * groups * sizeof(GroupSide));
    view = {rows, values.data(), size_t(inputs), codes.as<int8_t>(), sides.as<GroupSide>(), groups};
    // Only float matrices take rows of partial groups.
    if (inputs % groupInputs != 0) return;
    for (size_t tile = 0; tile < tiles; tile++) {
      InputTask task{};
      task.rows = std::min(tileRows, rows - int(tile) * tileRows);
      task.endGroup = int(groups);
      for (int row = 0; row < task.rows; row++) task.x[row] = &values[(tile * tileRows + size_t(row)) * size_t(inputs)];
      task.codes = codes.as<int8_t>() + tile * groups * groupCodes;
      task.sides = sides.as<GroupSide>() + tile * groups;
      task.paired = kernels.pairs(task.rows, int(groups));
      kernels.makeInput(task);
    }
  }
  TiledRows(const TiledRows&) = delete;

  std::vector<float> values;
  PageBuffer codes, sides;
  Activations view;
};

}  // namespace chairlift
