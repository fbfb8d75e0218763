// What gated delta nets and state spaces share on the device.
#pragma once

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
  const size_t shared = size_t(layout.rows) * (columnsOfBlock + 2 * rowsOfChunk) * sizeof(float);
  work.device.launch(kernel, {work.states.sequences, layout.heads * pieces, columnsOfBlock, shared}, args);
}

}  // namespace cuda
}  // namespace chairlift
