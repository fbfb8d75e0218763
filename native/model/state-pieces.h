// How recurrent layers split their work: by sequence, head and columns of its matrix.
#pragma once

#include <algorithm>
#include <vector>

#include "model/workspace.h"

namespace chairlift {

/** Calls `take(run, head, begin, end)`; one thread takes some columns of a head through all runs of a sequence. */
template <class Take>
void forEachStatePiece(Workspace& work, const StateLayout& layout, int heads, const Take& take) {
  constexpr int pieceColumns = 64;
  const std::vector<std::vector<StateRun>>& sequences = work.batch.stateRuns();
  const int width = int(layout.columnStride()), pieces = (width + pieceColumns - 1) / pieceColumns;
  const int perSequence = heads * pieces;
  work.pool.forEachOne("update recurrent states", int(sequences.size()) * perSequence, [&](int index) {
    const int piece = index % perSequence, begin = piece % pieces * pieceColumns;
    for (const StateRun& run : sequences[size_t(index / perSequence)]) {
      take(run, piece / pieces, begin, std::min(width, begin + pieceColumns));
    }
  });
}

}  // namespace chairlift
