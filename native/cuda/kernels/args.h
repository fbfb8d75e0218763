// What kernels take. Pointers are of the device. Rows of floats are padded to whole groups of 32, as the processor's are.
#pragma once

#include <cstdint>

// Functions of the host and of kernels.
#ifdef __CUDACC__
#define CHAIRLIFT_BOTH __device__ __forceinline__
#else
#define CHAIRLIFT_BOTH inline
#endif

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
  // Of products that share an input, the rows of the input that are the tile's, as bits.
  uint32_t inputRows = 0;
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

/** Where codes of rows, their scales and sums are written: see InputView. */
struct CodesTarget {
  // Null: not wanted.
  uint32_t* codes;
  float* scales;
  float* sums;
  // What codes are padded to: whole segments.
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
  // Rows that a warp takes, one or a tile's, and warps side by side, for rows of a tile.
  int32_t rowsOfWarp, rowWarps;
  // Whether `x` and `up` can be read 16 bytes at a time.
  bool isAligned;
  CodesTarget to;
  // Null: not wanted.
  float* values;
  int64_t valueStride;
};

constexpr int mostParts = 6;

/** How a block of few rows takes its panels: see products-few.h. */
struct FewPlan {
  // Segments of inputs that are in shared memory together, at most one for each warp, and for how many chunks of them there is room.
  int32_t segments, buffers;
  // Panels that warps have between two barriers, and those whose sums are kept from chunk to chunk.
  int32_t panelsAtOnce, panels;
  // Whether tiles share all blocks out.
  bool sharesBlocks;
};

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
  // Whether all tiles read the input's first tile.
  bool sharesInput;
  int32_t rows;
  float* out;
  int64_t outStride;
  FewPlan few;
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

/** What the experts of rows have given; a row's part is their sum in the order of its choices. */
struct Mixture {
  // Null: there is none.
  const float* given;
  // By row and choice: the row of `given`, -1 where the row pads the step.
  const int32_t* slots;
  // Null: all are 1.
  const float* weights;
  int32_t used;
};

/**
 * After a part of a branch: its output norm, its addition to the branch; after the last part the branch's norm, its addition to the
 * residual stream, the stream's own scale and norm, and the scales of norms that read the stream next.
 */
struct FinishPartArgs {
  const float* part;
  // In place of `part`.
  Mixture mixture;
  // The branch so far, to which the part is added; null: the part is the branch.
  float* branch;
  // Where the branch is kept unless this was its last part.
  float* kept;
  float* stream;
  int64_t stride;
  int32_t size;
  NormArgs partNorm, branchNorm, streamNorm;
  float scale, streamScale;
  bool isLast;
  float epsilon;
  // By NormKind; null where no norm of the kind reads the stream.
  Scale* scales[2];
  // The norm of the next input, and where its codes go; no weight: it is made elsewhere.
  NormArgs nextNorm;
  CodesTarget next;

  /** Whether the part, a row of whole groups, is added to the stream as it is, and an RMS norm without a bias reads it next. */
  bool isPlain() const {
    const bool hasNorms = partNorm.weight || branchNorm.weight || streamNorm.weight;
    const bool isNextPlain = nextNorm.weight && !nextNorm.bias && nextNorm.kind == 0 && scales[0] && !scales[1];
    return isLast && !branch && !hasNorms && streamScale == 1.0f && isNextPlain && size % 32 == 0;
  }
};

struct MeasureArgs {
  const float* x;
  int64_t stride;
  int32_t size;
  float epsilon;
  Scale* scales[2];
};

/** Norms over all heads after rotation are measured in between: then one launch rotates, and another one does the rest. */
constexpr int placeAll = 0, placeUpToRope = 1, placeFromNorms = 2;

/** Norms, rotates and stores the heads of projected rows. */
struct PlaceHeadsArgs {
  int32_t what;
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

/** Norms and stores the compressed KV of MLA, and lists rows by head. */
struct PlaceMlaArgs {
  float* projected;
  int64_t stride;
  int32_t kvLoraRank, qkRopeHeadDim;
  // Compressed queries; null: none.
  int64_t queryInputAt;
  int32_t queryInputSize;
  NormArgs kvNorm, queryInputNorm;
  const float* rotations;
  int32_t pairs;
  const int32_t* positions;
  const int32_t* blocks;
  uint8_t* kv;
  int64_t blockStride;
  int32_t kvType;
  // Rows of single heads, ordered by head: where they are among queries, whose rows are `queryHeads` heads long, and among
  // attended values; and tiles of them.
  int32_t headCount, queryHeads;
  int32_t* queryPlaces;
  int32_t* valuePlaces;
  Tile* tiles;
};

/** Queries of MLA in the order of rows: what W_UK made of them, then the rotated values. */
struct MlaQueriesArgs {
  // Ordered by head.
  const float* compressed;
  // Of a row, all heads one after another.
  const float* unrotated;
  int64_t unrotatedStride;
  int32_t headCount, kvLoraRank, qkRopeHeadDim;
  const float* rotations;
  int32_t pairs;
  const int32_t* positions;
  float* queries;
};

/** Brings heads from the order of heads to that of rows. */
struct OrderHeadsArgs {
  const float* byHead;
  int32_t headCount, size;
  float* to;
  int64_t stride;
};

// Tokens of a KV block, and blocks whose softmax is kept online: segments are joined in order, so that they can be computed apart.
constexpr int tokensOfBlock = 32;
constexpr int blocksOfSegment = 16;
constexpr int tokensOfSegment = blocksOfSegment * tokensOfBlock;
// The most queries of a piece: of a few rows, and of many.
constexpr int fewQueries = 8;
constexpr int manyQueries = 64;
// Of attention-staged.h: the largest heads, and a stage of 32 of their keys or 16 of their values, or as many as fit.
constexpr int mostStagedValues = 128, stageBytesOfFew = 4096;
// The most rows of a sequence that pieces of few rows may have in attention-staged.h.
constexpr int mostFewRows = 4;
// Floats of a segment's state before its values.
constexpr int stateHead = 4;

/** Positions that a row sees, both included. */
struct Seen {
  int32_t first, last;
};

/** Which positions attention shows to a row: `end` is one past the last position of its sequence in this step. */
struct AttentionView {
  int32_t window, chunk;
  bool isBidirectional;

  CHAIRLIFT_BOTH Seen of(int own, int end) const {
    const int inWindow = window > 0 && own >= window ? own - window + 1 : 0;
    const int inChunk = chunk > 0 ? own - own % chunk : 0;
    const int textEnd = isBidirectional ? end : 0;
    const bool cut = window > 0 && window < textEnd - own;
    const int last = textEnd == 0 ? own : cut ? own + window - 1 : textEnd - 1;
    return {inWindow > inChunk ? inWindow : inChunk, last};
  }
};

/**
 * Queries of one sequence and KV head over some segments. Queries are numbered from the sequence's first row on: a row's heads,
 * then the next row's. Where several pieces have the same queries, each has one segment and leaves its state; the last of them
 * joins all.
 */
struct AttentionPiece {
  // The sequence's first row, its position, one past the last position in this step, and where the block table starts.
  int32_t firstRow, position, end, tableStart;
  int32_t firstQuery, queries;
  int32_t firstSegment, endSegment;
  // Pieces with these queries, 1: this one alone; the first segment of all, its states, and the counter of finished pieces.
  int32_t parts, firstOfAll, firstState, counter;
  // Of a piece of few rows with one segment: the blocks that it sees of it.
  int32_t blocks[blocksOfSegment];
};

/** Of attention-one.h: threads of a block, parts of blocks that a warp has room for, and shared memory. */
constexpr int oneWarps = 8, oneThreads = 32 * oneWarps, slotsOfWarp = 3;
CHAIRLIFT_BOTH int oneSharedBytes(int queries, int headSize, int element) {
  const int floats = queries * (headSize + tokensOfSegment + 3 * blocksOfSegment) + 4;
  return floats * 4 + 2 * headSize * element + oneWarps * slotsOfWarp * headSize * tokensOfBlock * element;
}

/** Attention of one layer over rows of a step. */
struct AttentionArgs {
  const float* queries;
  int64_t queryStride;
  float* outputs;
  int64_t outputStride;
  int32_t headCount, kvHeadCount, headSize, valuesInKeys;
  AttentionView view;
  float scale, softcap;
  const float* sinks;
  const int32_t* tables;
  const AttentionPiece* pieces;
  // The number of pieces, then how many of them blocks of many rows have taken.
  int32_t* pieceCount;
  // By state and KV head: the largest score, the total, two more, then the weighted values; and counters by KV head.
  float* states;
  int32_t* counters;
  const uint8_t* kv;
  int64_t blockStride, headBytes;
  int32_t kvType;
  int32_t sharedBytes;
  // Of attention-staged.h: two or four.
  int32_t stagesOfWarp;
  // Whether queries, keys and values of the rows are as the product left them: then `place` says what becomes of them.
  bool places;
  PlaceHeadsArgs place;
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

// The words of src/compute/device-sampling/sampling-layout.ts.
namespace sampling {

constexpr int jobsOfRow = 2, wordsOfJob = 16, wordsOfHead = 8, listLength = 1024, wordsOfList = 2 * listLength;
enum JobKind : uint32_t { kindNothing = 0, kindLikeliest = 1, kindCandidates = 2 };
enum JobWord {
  jobKind = 0,
  jobSlope = 1,
  jobMask = 2,
  jobBiased = 3,
  jobPenalized = 5,
  jobForbidden = 7,
  jobRepetition = 9,
  jobInverseRepetition = 10,
  jobPresence = 11,
  jobFrequency = 12,
  jobUnitBits = 15,
};
enum HeadWord { headListed = 0, headToken = 1, headLogit = 2, headTotalLow = 3, headTotalHigh = 4, headOdd = 5 };

// Tokens by their number modulo `listLength` are in groups; a piece of a row is the tokens of 32 neighbouring groups.
constexpr int groupsOfPiece = 32, piecesOfRow = listLength / groupsOfPiece;

/** What is known of one job between its kernels. */
struct SampleState {
  // The first token of each group in the order of candidates, or of each piece where no candidates are listed; then candidates in
  // any order. A token's place in that order is larger for tokens before it: see `placeOf` in sampling.h.
  uint64_t places[listLength];
  // Sums of weights by piece.
  uint64_t sums[piecesOfRow];
  // Whether a logit of the piece is NaN or infinity.
  uint32_t isOdd[piecesOfRow];
  // Keys: all from the threshold on are listed.
  uint32_t highest, threshold;
  uint32_t listed;
};

}  // namespace sampling

/** Blocks: x are pieces of a row where a kernel has several, y are jobs, those of all first jobs first. */
struct SampleArgs {
  const float* logits;
  int32_t vocabSize;
  // Where the words of jobs start, counted from here, and how many rows have some: others pad the step.
  const int32_t* jobs;
  // Rows of the padded step.
  int32_t rows;
  bool listsCandidates;
  sampling::SampleState* states;
  uint32_t* found;
};

struct RepackArgs {
  const uint8_t* panels;
  int64_t panelBytes;
  // Those of the panels that are repacked.
  MatrixView to;
};

}  // namespace cuda
}  // namespace chairlift
