// What kernels take. Pointers are of the device. Rows of floats are padded to whole groups of 32, as the processor's are.
#pragma once

#include <cstdint>

namespace chairlift {
namespace cuda {

// Outputs of a panel, inputs of a group and rows of a tile: the shape of one matrix instruction.
constexpr int panelOutputs = 16;
constexpr int inputsOfGroup = 32;
constexpr int rowsOfTile = 8;
// Groups whose products are summed by one warp: sums are made of segments of 512 inputs, whatever the number of rows.
constexpr int groupsOfSegment = 16;
constexpr int inputsOfSegment = groupsOfSegment * inputsOfGroup;
// Vectors of 16 values whose squares are summed side by side.
constexpr int sumVectors = 4;

/** The same values as NormKind, InputForm, Activation, Encoding and ScaleType of kernels/kernels.h. */
struct NormArgs {
  int32_t kind;
  float epsilon;
  // Null: no norm.
  const float* weight;
  // May be null.
  const float* bias;
};

struct Scale {
  float mean, factor;
};

/**
 * A quantized matrix in the order of fragments. A panel holds
 *
 *   codes     bytes    [group][lane] four words: outputs g, g + 8, g, g + 8, inputs from 4t, 4t, 16 + 4t, 16 + 4t on, of
 *                      lane (g, t) = (lane / 4, lane % 4)
 *             nibbles  [pair of groups][lane] two words for each group: output g and g + 8; inputs from 4t on in the low halves
 *                      of bytes, from 16 + 4t on in the high ones. Encoding::Nibble is stored in two's complement; a codebook's
 *                      indices from 4t on are the low half of the word, those from 16 + 4t on the high one
 *   scales    [four scale groups][g][scale group][outputs g and g + 8], and minimums alike
 *   supers    of ScaleType::Super: [chunk of eight groups][g][scale of g, g + 8; with minimums those of g, g + 8]
 *
 * What pads the last of several is zero. Float matrices are in the processor's panels.
 */
struct MatrixView {
  const uint8_t* codes;
  const uint8_t* scales;
  const uint8_t* minimums;
  const uint8_t* supers;
  // Bytes from a panel to the next, of each.
  int64_t codeStride, scaleStride, minimumStride, superStride;
  int32_t inputs, outputs;
  // Of one member, which follow each other.
  int32_t panels;
  uint8_t encoding, scaleType;
  bool hasMinimum;
  int32_t scaleInputs;
  int32_t blockInputs;
  // Of Encoding::Codebook.
  uint32_t codebook[4];
  float unit;
};

/** Rows of one member that a product takes together. */
struct Tile {
  int32_t member, firstRow, rows;
};

/**
 * Rows of activations by tile: codes [tile][group][lane], two words each: row g, inputs from 4t and 16 + 4t on; scales
 * [tile][group][row]; sums [tile][group][whole, first half, second half][row]: the scale times the sum of the codes.
 */
struct InputView {
  const uint32_t* codes;
  const float* scales;
  const float* sums;
  // Float rows, in the order of input rows.
  const float* values;
  int64_t valueStride;
  // Of a tile's codes: whole segments.
  int32_t groups;
};

struct MakeInputArgs {
  int32_t form, activation;
  float limit, slope;
  const float* x;
  int64_t stride;
  const float* up;
  int64_t upStride;
  const Scale* scales;
  const float* weight;
  const float* bias;
  // The row of `x` of each input row, or null; factors of input rows, or null.
  const int32_t* places;
  const float* factors;
  // Null: tiles are of eight rows each, in order.
  const Tile* tiles;
  const int32_t* tileCount;
  int32_t rows, groups;
  // What codes are padded to: whole segments.
  int32_t paddedGroups;
  // Null: not wanted.
  uint32_t* codes;
  float* codeScales;
  float* sums;
  float* values;
  int64_t valueStride;
};

constexpr int mostParts = 6;

struct ProductArgs {
  struct Part {
    MatrixView matrix;
    // Null, or padded to whole panels, member after member.
    const float* bias;
    int64_t offset;
  };
  Part parts[mostParts];
  int32_t partCount;
  InputView input;
  const Tile* tiles;
  const int32_t* tileCount;
  int32_t rows;
  float* out;
  int64_t outStride;
};

struct EmbedArgs {
  MatrixView table;
  const int32_t* tokens;
  float factor;
  float* to;
  int64_t stride;
  // Tokens beyond the table have its first row.
  int32_t size;
};

/**
 * After a part of a branch: its output norm, its addition to the branch; after the last part the branch's norm, its addition to the
 * residual stream, the stream's own scale and norm, and the scales of norms that read the stream next.
 */
struct FinishPartArgs {
  const float* part;
  // Null: the part is the branch.
  float* branch;
  float* stream;
  int64_t stride;
  int32_t size;
  NormArgs partNorm, branchNorm, streamNorm;
  float scale, streamScale;
  bool isLast;
  float epsilon;
  // By NormKind; null where no norm of the kind reads the stream.
  Scale* scales[2];
};

struct MeasureArgs {
  const float* x;
  int64_t stride;
  int32_t size;
  float epsilon;
  Scale* scales[2];
};

/** Norms, rotates and stores the heads of projected rows. */
struct PlaceHeadsArgs {
  float* projected;
  int64_t stride;
  int64_t keysAt, valuesAt;
  int32_t headCount, kvHeadCount, headSize;
  bool stores, hasValues, normsAfterRope;
  // Weights of single heads are `headSize` apart, or shared.
  NormArgs queryNorm, keyNorm, valueNorm;
  bool queryOwn, keyOwn, valueOwn;
  // Scales of norms over all heads, or null.
  const Scale* queryScales;
  const Scale* keyScales;
  const Scale* valueScales;
  // By position: cosines, then sines of all pairs. Null: no rotation.
  const float* rotations;
  int32_t pairs;
  // By position, or null.
  const float* growth;
  const int32_t* positions;
  // The block of each row's own token; -1 for rows that pad a step.
  const int32_t* blocks;
  uint8_t* kv;
  int64_t blockStride, headBytes;
  int32_t kvType;
};

/** Attention of one layer over rows of a step. */
struct AttentionArgs {
  const float* queries;
  int64_t queryStride;
  float* outputs;
  int64_t outputStride;
  int32_t headCount, kvHeadCount, headSize, valuesInKeys;
  bool isBidirectional;
  int32_t window, chunk;
  float scale, softcap;
  const float* sinks;
  const int32_t* positions;
  // By row: where its sequence's block table starts, and one past its sequence's last position in this step.
  const int32_t* tableStarts;
  const int32_t* ends;
  const int32_t* tables;
  const int32_t* blocks;
  const uint8_t* kv;
  int64_t blockStride, headBytes;
  int32_t kvType;
};

struct GatherRowsArgs {
  const float* x;
  int64_t stride;
  const int32_t* rows;
  const Scale* scales;
  NormArgs norm;
  int32_t size;
  float* to;
  int64_t toStride;
};

struct ScaleLogitsArgs {
  float* logits;
  int64_t count;
  float factor, softcap;
};

struct RepackArgs {
  const uint8_t* panels;
  int64_t panelBytes;
  // Those of the panels that are repacked.
  MatrixView to;
};

}  // namespace cuda
}  // namespace chairlift
