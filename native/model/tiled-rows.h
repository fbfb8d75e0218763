// Rows of activations and their int8 tiles, for kernels that are run on their own.
#pragma once

#include <algorithm>
#include <vector>

#include "kernels/kernels.h"
#include "system/page-buffer.h"

namespace chairlift {

struct TiledRows {
  TiledRows(const KernelTable& kernels, const float* from, int rows, int inputs) {
    const size_t groups = size_t(inputs + groupInputs - 1) / groupInputs, stride = groups * groupInputs;
    const size_t tiles = size_t(rows + tileRows - 1) / tileRows;
    values = PageBuffer(tiles * groups * groupCodes * sizeof(float));
    codes = PageBuffer(tiles * groups * groupCodes);
    sides = PageBuffer(tiles * groups * sizeof(GroupSide));
    view = {rows, values.as<float>(), codes.as<int8_t>(), sides.as<GroupSide>(), groups};
    // Only float matrices take rows of partial groups.
    std::vector<float> padded(size_t(rows) * stride);
    for (size_t row = 0; row < size_t(rows); row++) std::copy_n(from + row * size_t(inputs), inputs, &padded[row * stride]);
    for (size_t tile = 0; tile < tiles; tile++) {
      InputTask task{};
      task.rows = std::min(tileRows, rows - int(tile) * tileRows);
      task.endGroup = int(groups);
      for (int row = 0; row < task.rows; row++) task.x[row] = &padded[(tile * tileRows + size_t(row)) * stride];
      task.tile = values.as<float>() + tile * groups * groupCodes;
      task.codes = codes.as<int8_t>() + tile * groups * groupCodes;
      task.sides = sides.as<GroupSide>() + tile * groups;
      task.paired = kernels.pairs(task.rows, int(groups));
      kernels.makeInput(task);
    }
  }
  TiledRows(const TiledRows&) = delete;

  PageBuffer values, codes, sides;
  Activations view;
};

}  // namespace chairlift
