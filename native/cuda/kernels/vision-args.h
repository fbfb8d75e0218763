// What the kernels of models that see take: of vision towers, and of rows of images in the text model. They are compiled apart from
// all others, and loaded with a model that sees.
#pragma once

#include "cuda/kernels/args.h"

namespace chairlift {
namespace cuda {

/** Reads patches of a view as rows of floats. */
struct ReadPatchesArgs {
  // Three bytes a pixel, row by row.
  const uint8_t* rgb;
  // What each byte is, 256 values a channel.
  const float* values;
  int32_t width, size, frames, columns, firstRow;
  bool channelsFirst;
  float* to;
  int64_t stride;
};

/** Adds to rows what their taps give of a table: those of row i from `starts[i]` to `starts[i + 1] - 1`. */
struct AddTapsArgs {
  MatrixView table;
  const int32_t* starts;
  const int32_t* rows;
  const float* weights;
  int32_t firstRow, size;
  // Of the first row.
  float* x;
  int64_t stride;
};

/** As TowerOperation::Gathering. */
constexpr int gatherCells = 0, gatherChannels = 1, gatherMean = 2;

/** Makes each row of `members` others. */
struct GatherCellsArgs {
  const float* from;
  int64_t fromStride;
  // Of the first row; -1: the token.
  const int32_t* sources;
  const float* token;
  int32_t by, members, size;
  float* to;
  int64_t toStride;
};

/** x * factor + shift; (x - shifts) * scales; x within bounds; quick-gelu(x), times `up` where it is given. */
constexpr int changeAffine = 0, changeStandardize = 1, changeHold = 2, changeQuickGelu = 3;

/** Changes values of rows, each alone. */
struct ChangeRowsArgs {
  int32_t kind, size;
  float* x;
  int64_t stride;
  // Factor and shift, or the least and the most.
  float first, second;
  const float* shifts;
  const float* scales;
  const float* up;
  int64_t upStride;
};

/** Adds what a branch of a tower gives to the stream. */
struct AddBranchArgs {
  float* added;
  int64_t addedStride;
  NormArgs norm;
  // By channel, or null.
  const float* scales;
  float* stream;
  int64_t stride;
  // The row of the stream of each row; null: the same.
  const int32_t* order;
  int32_t size;
};

/** Norms and turns queries, keys and values of a view's rows, and brings them to the order of their groups. */
struct PlaceViewArgs {
  const float* projected;
  int64_t projectedStride;
  // Of queries, keys and values.
  int64_t at[3];
  NormArgs norms[3];
  // Values of a norm: of a head, or of all.
  int32_t normSizes[3];
  int32_t headCount, headSize;
  // The two values of a head that each pair turns; of the first row, cosines of all pairs, then sines. Null: none is turned.
  const int32_t* pairs;
  int32_t pairCount;
  const float* rotations;
  // Of the first row: its place in the order, and the token of all blocks that it is.
  const int32_t* places;
  const int32_t* tokens;
  float* queries;
  int64_t queryStride;
  // By block and head: keys, as columns of tokens, then values, as rows.
  float* kv;
  int64_t blockFloats;
};

/** Embeddings in place of tokens', or what is added to rows of images. */
struct SetImageRowsArgs {
  const float* values;
  int32_t size;
  bool adds;
  const int32_t* rows;
  float* x;
  int64_t stride;
};

/** Gathers the turns of each row, each pair by one of the row's three positions. */
struct TurnRowsArgs {
  // By position: cosines, then sines of all pairs.
  const float* table;
  int32_t pairs;
  // By pair; null: all by the first.
  const int32_t* axes;
  // Three a row.
  const int32_t* positions;
  float* to;
};

/** Heads whose turns are those of their row, not of their position. */
struct PlaceTurnedArgs {
  PlaceHeadsArgs heads;
  const float* turns;
};

}  // namespace cuda
}  // namespace chairlift
