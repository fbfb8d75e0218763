// What the kernels of single kinds of layers take: experts, recurrent layers, AltUp, per-layer embeddings, adapters.
#pragma once

#include "cuda/kernels/args.h"

namespace chairlift {
namespace cuda {

/** Multiplies rows, normalized if `weight` is given, with a router's matrix of floats. */
struct ScoreExpertsArgs {
  const float* x;
  int64_t stride;
  const Scale* scales;
  const float* weight;
  const float* bias;
  MatrixView matrix;
  int32_t rows;
  // By row and segment.
  float* sums;
  int64_t sumStride;
};

/** Chooses the experts of each row. */
struct ChooseExpertsArgs {
  // By row and segment: logits are sums over segments, and a bias, which may be null.
  const float* sums;
  int64_t stride;
  int32_t rows, segments;
  const float* bias;
  // Of shared memory.
  int32_t bytesOfWarp;
  int32_t experts, used;
  bool isSigmoid, isNormalized;
  // 0: no groups.
  int32_t groups, usedGroups;
  bool byBestTwo;
  // Either may be null.
  const float* routingBias;
  const float* expertScales;
  double scale;
  // By row and choice, the best first.
  int32_t* chosen;
  float* weights;
};

/** Sorts choices by expert, then by row, and cuts them into tiles. */
struct SortChoicesArgs {
  const int32_t* chosen;
  const float* weights;
  // Of a row's own token; rows of block -1 pad the step and take no expert.
  const int32_t* blocks;
  // `firstRow` is that of the step.
  int32_t firstRow, rows, experts, used;
  // The place of each choice in the order, -1 for those of rows that pad the step.
  int32_t* slots;
  // The row of the step and the weight at each place.
  int32_t* places;
  float* factors;
  Tile* tiles;
  int32_t* tileCount;
};

/** Both, for up to eight rows. */
struct RouteFewArgs {
  ChooseExpertsArgs choice;
  SortChoicesArgs sorted;
};

struct MixExpertsArgs {
  Mixture mixture;
  int64_t stride;
  int32_t size;
  float* out;
};

struct CutGatesArgs {
  float* gates;
  int64_t stride;
  int32_t size;
  float cutoff;
};

/** Multiplies rows by the sigmoid of one value each. */
struct ShareRowsArgs {
  float* rows;
  int64_t stride;
  int32_t size;
  const float* shares;
  int64_t shareStride;
};

/** Rows of one sequence, and the slots of its recurrent state before them (-1: none) and after: as StateRun. */
struct RunOfRows {
  int32_t firstRow, rows, from, to;
};

/** Recurrent states of a step, and one layer's place in a slot. */
struct StateView {
  // Of a sequence from starts[sequence] to starts[sequence + 1].
  const int32_t* starts;
  const RunOfRows* runs;
  // By row: the first row of its sequence, and the slot that the sequence starts from.
  const int32_t* firstRows;
  const int32_t* fromSlots;
  // Of the layer in slot 0.
  float* state;
  int64_t slotStride;
};

struct ConvolveArgs {
  StateView states;
  const float* x;
  int64_t stride;
  float* to;
  int64_t toStride;
  const float* weights;
  const float* bias;
  int64_t channelStride;
  int32_t channels, taps;
  bool activates;
};

/** to = x * by, or x * silu(by). */
struct MultiplyRowsArgs {
  const float* x;
  int64_t stride;
  const float* by;
  int64_t byStride;
  float* to;
  int64_t toStride;
  int32_t size;
};

/** What a gated delta net needs before its rows are taken in order. */
struct PrepareDeltaArgs {
  float* mixed;
  int64_t mixedStride;
  int32_t keyHeads, keySize;
  float queryLength;
  float* shares;
  float* decays;
  int64_t stride;
  int32_t valueHeads;
  const float* decayBias;
  const float* rates;
};

struct PrepareScanArgs {
  float* steps;
  float* kept;
  int64_t stride;
  int32_t heads;
  const float* stepBias;
  const float* rates;
};

/** The matrices of heads, row after row: of a gated delta net, or of a state space. */
struct RecurArgs {
  StateView states;
  // Of the first matrix in a layer's state, and of the next.
  int64_t matrixAt, matrixStride, columnStride;
  int32_t heads, keySize, valueSize;
  // Heads that share keys are neighbours, or as many apart as there are keys.
  int32_t keyHeads;
  bool strided;
  // Keys (writes) and queries (reads) of `keySize`, values of `valueSize`, by head in a row of `mixed`.
  const float* mixed;
  int64_t mixedStride;
  int64_t queriesAt, keysAt, valuesAt;
  // By head: the decay of the matrix; the share of a correction, or the step.
  const float* kept;
  const float* shares;
  int64_t stride;
  // Of a state space.
  const float* skip;
  float* outputs;
  int64_t outputStride;
};

struct NormHeadsArgs {
  float* rows;
  int64_t stride;
  int32_t heads, size;
  NormArgs norm;
};

/** rows = norm(rows * silu(gates)). */
struct GateAndNormArgs {
  float* rows;
  int64_t stride;
  const float* gates;
  int64_t gateStride;
  int32_t size;
  NormArgs norm;
};

/** out = norm(out) + x, with x normalized if asked for. */
struct FinishLaurelArgs {
  float* out;
  int64_t outStride;
  NormArgs norm;
  const float* x;
  int64_t stride;
  const Scale* scales;
  NormArgs inputNorm;
  int32_t size;
};

/** values scaled to the root mean square of `like`, in place, or added to `sum`. */
struct ScaleLikeArgs {
  float* values;
  const float* like;
  // Null: in place.
  float* sum;
  int64_t stride;
  int32_t size;
};

/** The streams of AltUp: the first, all others one after the other, and predictions of all. */
struct AltUpArgs {
  float* first;
  float* others;
  float* predicted;
  int64_t stride, streamStride;
  int32_t count, size;
  const float* coefficients;
  int64_t coefficientStride;
  float epsilon;
  Scale* scales[2];
};

/** A copy of the first stream with factors, or none, and its scales. */
struct CopyStreamArgs {
  const float* from;
  float* to;
  int64_t stride;
  int32_t size;
  // Null: none.
  const float* factors;
  float epsilon;
  Scale* scales[2];
};

/** What a layer adds to all streams but the first. */
struct AddToStreamsArgs {
  AltUpArgs streams;
  const float* added;
  NormArgs norm;
};

struct CapRowsArgs {
  float* rows;
  int64_t stride;
  int32_t size;
  float cap;
};

/** Scales, normalizes and adds to what was projected, for one layer of one row. */
struct FinishPerLayerInputsArgs {
  float* projected;
  int64_t stride;
  int32_t size;
  float scale;
  NormArgs norm;
  MatrixView table;
  float tableScale;
  const int32_t* tokens;
};

struct FinishEmbeddingArgs {
  float* x;
  int64_t stride;
  int32_t size;
  float scale;
  // Null: none.
  const float* textKind;
  // By position; null: none.
  const int32_t* positions;
  MatrixView table;
  NormArgs norm;
};

/** Rows of each tile that use one adapter, and the members that it adds to. */
struct AdapterTilesArgs {
  // By row of the step.
  const int32_t* adapters;
  int32_t adapter;
  // The row of the step of each input row; null: the same.
  const int32_t* owners;
  // Null: tiles are of eight rows each, of the first member.
  const Tile* tiles;
  const int32_t* tileCount;
  int32_t rows;
  int32_t firstMember, members;
  Tile* to;
  // Input rows that remain, from each tile's first on.
  int32_t* places;
};

/** Adds what an adapter has made to the rows that it was made for. */
struct AddAdaptedArgs {
  const Tile* tiles;
  const int32_t* tileCount;
  const int32_t* places;
  const float* added;
  int64_t addedStride;
  float scale;
  int32_t outputs;
  // Null, or one for each output, member after member.
  const float* factors;
  const float* shifts;
  float* out;
  int64_t outStride;
};

}  // namespace cuda
}  // namespace chairlift
