// What a tower does with a view of one size: operations over rows of floats in buffers, in order. Made by src/compute/tower/program.ts;
// what does not fit the tower is refused.
#pragma once

#include <vector>

#include "tower/tower.h"

namespace chairlift {

/** Rows in a buffer: what an operation reads or writes. */
struct BufferRows {
  int buffer, rows, size;
};

/** For each row rows of a table with weights, whose sum is added to it. */
struct Taps {
  std::vector<int32_t> starts, rows;
  std::vector<float> weights;
};

/** Rows in an order in which those that see each other are neighbours; group i begins at `starts[i]`. */
struct TokenGroups {
  std::vector<int32_t> order, starts;
  // Of each row its group, and its place in `order`.
  std::vector<int32_t> groups, places;
  // Of each group its first block of keys and values.
  std::vector<int32_t> firstBlocks;
  int blockCount = 0;
};

struct TowerOperation {
  enum class Kind {
    Patches,
    // What the step does with each row alone.
    Rows,
    // Adds positions.
    Table,
    // Each row is made of some of those that are read.
    Gather,
    // A layer's feed-forward.
    Mlp,
    // A layer's attention: first queries, keys and values of rows, then what places of its groups see.
    Project,
    Attend
  };
  enum class Gathering { Cells, Channels, Mean };

  Kind kind;
  int step, branch;
  BufferRows from, to;
  // Patches of a row of the view.
  int columns;
  int table;
  Taps taps;
  Gathering by;
  int members;
  // Of each row the rows that make it, -1 for the step's token.
  std::vector<int32_t> sources;
  // Into the program's lists; -1: none is turned.
  int rotation, groups;

  /** How many rows there are to compute. */
  int rows() const { return to.rows; }
};

struct TowerProgram {
  int width = 0, height = 0;
  // What each byte is to the tower, by channel.
  std::vector<float> values;
  std::vector<TowerOperation> operations;
  // For each row cosines of all pairs, then sines.
  std::vector<std::vector<float>> rotations;
  std::vector<TokenGroups> groups;
  // Features, then those for layers of the text model.
  std::vector<BufferRows> outputs;
};

TowerProgram readProgram(const Record& from, const Tower& tower);

}  // namespace chairlift
