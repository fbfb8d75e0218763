// What gated delta nets and state spaces share on the device.
#pragma once

#include <string>

#include "cuda/work.h"
#include "model/recurrent-states.h"

namespace chairlift {
namespace cuda {

/** `kernel`: "update_delta" or "scan_states"; `args` has all but the states and their sizes. */
inline void launchRecurrence(const char* kernel, RecurArgs args, const StateLayout& layout, int state, Work& work) {
  constexpr int columnsOfBlock = 32, rowsOfChunk = 8;
  args.states = work.states.view(state);
  args.matrixAt = int64_t(layout.matricesAt());
  args.matrixStride = int64_t(layout.matrixAt(1) - layout.matricesAt());
  args.columnStride = int64_t(layout.columnStride());
  args.heads = layout.heads;
  args.keySize = layout.rows;
  args.valueSize = layout.columns;
  const int pieces = (layout.columns + columnsOfBlock - 1) / columnsOfBlock;
  // Columns of the usual length are kept in registers, and rows are read 16 bytes at a time.
  const bool isUsual = layout.rows == 128 && args.keysAt % 4 == 0 && args.queriesAt % 4 == 0;
  const size_t ofRows = 2 * rowsOfChunk * (columnsOfBlock + 2 + 2 * size_t(layout.rows));
  const size_t shared = (ofRows + (isUsual ? 0 : size_t(layout.rows) * columnsOfBlock)) * sizeof(float);
  const std::string name = std::string(kernel) + (isUsual ? "_128" : "");
  work.device.launch(name.c_str(), {work.states.sequences, layout.heads * pieces, columnsOfBlock, shared}, args);
}

}  // namespace cuda
}  // namespace chairlift
