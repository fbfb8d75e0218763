// What the kernels take and the table through which they are called: one table per ISA, chosen at run time.
// All ISAs give the same bits: integer sums are exact, float sums keep one order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kv-layout.h"
#include "kernels/recurrence-tasks.h"

namespace chairlift {

// Output columns that a panel holds side by side: one per lane.
constexpr int panelColumns = 16;
// Inputs that share one scale of a quantized activation.
constexpr int groupInputs = 32;

// Groups whose codes are stored before their scales: 256 inputs, a super-block of the k-quants.
constexpr int chunkGroups = 8;
// Rows of activations that are stored together.
constexpr int tileRows = 16;

// Inputs of a product whose shares are summed in one chain; the totals of segments are then added in order. A chain over all
// inputs would leave a GPU one thread for each output, and nothing else has its bits.
constexpr int segmentInputs = 512;
constexpr int segmentChunks = segmentInputs / (chunkGroups * groupInputs);

/**
 * What a code stands for. F8: a float of eight bits, 1 sign, 4 exponent and 3 mantissa, times a scale. Byte: -128 … 127. UnsignedByte: 0 … 255. Nibble: 0 … 15 for -8 … 7. UnsignedNibble: 0 … 15.
 * Codebook: 0 … 15 for an entry of the matrix's codebook. A weight is `scale * value + minimum`.
 */
enum class Encoding : uint8_t { F32, F16, BF16, F8, Byte, UnsignedByte, Nibble, UnsignedNibble, Codebook };

/** What sixteen codes stand for: `values[code] * unit`. */
struct Codebook {
  int8_t values[16];
  // A power of two, so that scales take it exactly.
  float unit;
};

/**
 * Super: a signed byte times a half per chunk, as in the k-quants. Power: a byte n for 2^(n - 127), as in MXFP4. All are finite; powers and the exponents of BF16 are at most `largestPower`.
 */
enum class ScaleType : uint8_t { F16, BF16, F32, Super, Power };

// What formats have. Kernels of a quantized encoding, 16 or 32 of whose inputs share a scale, take no others: each that they take
// would make all of them larger.

constexpr bool takesScales(Encoding encoding, int scaleInputs, ScaleType type) {
  const bool fine = scaleInputs == 16;
  if (type == ScaleType::Super) return encoding != Encoding::UnsignedByte;
  if (type == ScaleType::F16) return !fine || encoding == Encoding::Codebook;
  if (type == ScaleType::Power) return !fine && encoding == Encoding::Codebook;
  return !fine && (encoding == Encoding::UnsignedNibble || encoding == Encoding::Byte || encoding == Encoding::UnsignedByte);
}

constexpr bool takesMinimums(Encoding encoding, int scaleInputs) {
  return encoding == Encoding::UnsignedNibble || encoding == Encoding::UnsignedByte ||
         (encoding == Encoding::Byte && scaleInputs != 16);
}

// 2^100: beyond it `liftValue` times a scale would be infinite.
constexpr uint8_t largestPower = 227;

/**
 * A weight matrix repacked into panels of 16 output columns. A panel of a quantized matrix is a row of chunks, read
 * from front to back. A chunk holds eight groups of 32 inputs, the last one the rest:
 *
 *   codes     per group eight 64-byte rows of bytes, or four of nibbles:
 *               bytes    row q:  column 0 inputs 4q … 4q+3 | column 1 inputs 4q … 4q+3 | … | column 15
 *               nibbles  row q:  the same with inputs 4q … in the low and 4(q+4) … in the high half of each byte
 *   scales    16 for each scale group
 *   minimums  as many, where `hasMinimum`
 *   supers    ScaleType::Super alone: 16 halves for the scales and, where `hasMinimum`, 16 for the minimums
 *
 * A float panel holds 16 values per input, input by input. Those of F8 come in blocks of `blockInputs` inputs, with 16 float32
 * scales before each. The scales are 256 times the file's, because kernels read an F8 as the half that is a 256th of it.
 */
struct PackedMatrix {
  Encoding encoding;
  ScaleType scaleType;
  bool hasMinimum;
  // Of Encoding::Codebook; null for others.
  const Codebook* codebook;
  // Inputs per scale: 16, 32, 64 or 128; the last two divide `inputs`. 0 for float matrices.
  int32_t scaleInputs;
  // Inputs per scale of F8; 0 for others.
  int32_t blockInputs;
  int32_t inputs;
  int32_t outputs;
  size_t panelBytes;
  const uint8_t* panels;

  int groups() const { return inputs / groupInputs; }
  int chunks() const { return (groups() + chunkGroups - 1) / chunkGroups; }
  int groupsIn(int chunk) const {
    const int left = groups() - chunk * chunkGroups;
    return left < chunkGroups ? left : chunkGroups;
  }
  size_t codeBytes() const {
    return encoding == Encoding::Byte || encoding == Encoding::UnsignedByte ? 512 : 256;
  }
  // A group's share where several have one scale.
  size_t scaleBytes() const {
    const bool isHalf = scaleType == ScaleType::F16 || scaleType == ScaleType::BF16;
    const size_t one = isHalf ? 2 : scaleType == ScaleType::F32 ? 4 : 1;
    return one * size_t(panelColumns * groupInputs / scaleInputs);
  }
  // Offsets within a chunk of `n` groups.
  size_t scalesAt(int n) const { return size_t(n) * codeBytes(); }
  size_t minimumsAt(int n) const { return scalesAt(n) + size_t(n) * scaleBytes(); }
  size_t supersAt(int n) const { return minimumsAt(n) + (hasMinimum ? size_t(n) * scaleBytes() : 0); }
  size_t chunkBytes(int n) const {
    const size_t supers = scaleType == ScaleType::Super ? (hasMinimum ? 2 : 1) * panelColumns * 2 : 0;
    return (supersAt(n) + supers + 63) / 64 * 64;
  }
  size_t blockBytes() const { return panelColumns * (sizeof(float) + size_t(blockInputs)); }
  // With its share of the scales.
  size_t groupBytes() const { return panelBytes / size_t(groups()); }
};

/** Scales and sums of one group of 16 rows. */
struct GroupSide {
  float scale[tileRows];
  // -128 times the sum of the codes, of the whole group and of its halves: moves codes between signed and unsigned.
  int32_t offset[3][tileRows];
  // The scale times the sum of the codes, of the whole group and of its halves: what a minimum is multiplied by.
  float sum[3][tileRows];
};

/**
 * Rows of activations in tiles of 16: float32 for float matrices, [tile][group][row][32 inputs], where the last tile has no more
 * rows than there are; for quantized ones int8 with one scale per group of 32: codes in the same order, sides [tile][group]. Rows of
 * codes beyond the last hold anything.
 *
 * Kernels with `pairsGroups` want the groups of a tile of five to eight rows in pairs, so that one matrix product takes
 * both: codes [pair][16][64], the first group's rows with 32 zeros after each, then the second's with 32 before.
 */
struct Activations {
  int32_t rows;
  const float* values;
  const int8_t* codes;
  const GroupSide* sides;
  size_t tileGroups;
};

constexpr size_t groupCodes = size_t(tileRows) * groupInputs;

// Rows of a tile in pairs, from the fewest that are worth a matrix product up to half a tile.
constexpr int fewestPairedRows = 5, pairedRows = tileRows / 2;

/** Whether kernels with `pairsGroups` want a tile in pairs. */
inline bool isPaired(int rows, int groups) {
  return rows >= fewestPairedRows && rows <= pairedRows && groups % 2 == 0;
}

enum class NormKind : uint8_t { Rms, Layer };

struct RowScale {
  float mean, factor;
};

/**
 * Clamped: `x * sigmoid(slope * x) * (up + 1)`, with x held below the limit and up within it. QuickGelu: `x * sigmoid(1.702 x)`.
 */
enum class Activation : uint8_t { Silu, GeluTanh, Gelu, Sigmoid, Clamped, QuickGelu };

/** Normalized: see `weight`. Activated: activation(x). Gated: activation(x) * up. */
enum class InputForm : uint8_t { Plain, Normalized, Activated, Gated };

struct InputTask {
  InputForm form;
  Activation activation;
  float limit, slope;
  // At most a tile, and which groups of 32 values.
  int32_t rows;
  int32_t firstGroup, endGroup;
  const float* x[tileRows];
  const float* up[tileRows];
  // For Normalized; the bias may be null.
  RowScale scales[tileRows];
  const float* weight;
  const float* bias;
  // A factor for each row of the result, or null.
  const float* factors;
  // The float32 result row by row, or null.
  float* values;
  size_t valueStride;
  // The same as one tile, or null.
  float* tile;
  // The int8 result, one tile, or null.
  int8_t* codes;
  GroupSide* sides;
  bool paired;
};

/** Queries of one sequence over one KV head. */
struct AttentionTask {
  const float* queries;
  float* outputs;
  // Query rows are consecutive positions from `position` on, `queryHeads` heads each.
  int32_t rows;
  int32_t queryHeads;
  size_t queryStride;
  size_t outputStride;
  int32_t position;
  int32_t headSize;
  // How many values of each key are the values; 0: values are stored on their own.
  int32_t valuesInKeys;
  // Tokens before this position are seen, later ones too; 0: causal.
  int32_t textEnd;
  // So are those before this one, however far: the end of the rows' image; 0: none.
  int32_t imageEnd;
  // Tokens that are seen on a side, the row's own included; 0: all.
  int32_t window;
  // Tokens see their own chunk of this many alone; 0: all chunks.
  int32_t chunk;
  float scale;
  // 0: none.
  float softcap;
  // A score for each query head, of no token, or null.
  const float* sinks;
  // Block table of the sequence; KV of a block for this head start at base + block * blockStride.
  const int32_t* blocks;
  const uint8_t* base;
  size_t blockStride;
  // Room for the softmax state, `attentionScratchFloats` values.
  float* scratch;
  // Several threads may share a history: each keeps the states of some of its segments here, [segment][query][attentionStateFloats],
  // and who `joins` them reads those of all. Null where one thread attends to all of it.
  float* states = nullptr;
  int32_t firstSegment = 0, endSegment = 0;
  bool joins = false;

  int valueSize() const { return valuesInKeys > 0 ? valuesInKeys : headSize; }
};

// Queries that are interleaved, and queries that share one pass over the blocks.
constexpr int attentionTile = 4;
constexpr int attentionQueries = 64;
// Tokens whose softmax has a state of its own; states are joined in order. Segments begin at multiples of it, whatever a query
// sees, so that parts of a GPU can take them at the same time.
constexpr int segmentTokens = 512;
constexpr int segmentBlocks = segmentTokens / blockTokens;

/** For each query the weights of a block, the values of its segment and those of all segments before, and itself as bytes. */
constexpr size_t attentionScratchFloats(int valueSize) {
  const size_t padded = size_t(q4Groups(valueSize)) * q4GroupSize;
  return size_t(attentionQueries) * (2 * padded + blockTokens + byteGroupFloats(valueSize));
}

/** A segment's state of one query: its maximum, its total, and at `stateValuesAt` its values. */
constexpr size_t stateValuesAt = 16;
constexpr size_t attentionStateFloats(int valueSize) { return stateValuesAt + size_t((valueSize + 31) / 32 * 32); }

/**
 * out[row][column] = Σ x[row] w[column] + bias[column] for the panels from firstPanel up to endPanel.
 * `bias` is null or padded to whole panels.
 */
using MultiplyKernel = void (*)(const PackedMatrix& matrix, const Activations& x, int firstPanel, int endPanel,
                                const float* bias, float* out, size_t outStride);

struct KernelTable {
  const char* name;
  bool pairsGroups;
  bool pairs(int rows, int groups) const { return pairsGroups && isPaired(rows, groups); }
  MultiplyKernel multiply;
  RowScale (*rowScale)(NormKind kind, const float* x, int count, float epsilon);
  /** to = (x - mean) * factor * weight + bias; weight and bias are padded to 16, the bias may be null. */
  void (*normalize)(const float* x, RowScale scale, const float* weight, const float* bias, float* to, int count);
  /** Rows of at most one tile, some of their groups. */
  void (*makeInput)(const InputTask& task);
  /** Rotates pairs (i, i + half) of one head in place. */
  void (*rotate)(float* head, const float* cosines, const float* sines, int half);
  /** x += factor * delta, fused; nothing past `count` is written. */
  void (*addScaled)(float* x, const float* delta, float factor, int count);
  void (*softcapInPlace)(float* x, int count, float cap);
  /** Writes one token's K and V of one head into its block at `token`; `value` is null where values are a part of keys. */
  void (*storeKv)(KvType type, const float* key, const float* value, int headSize, int token, uint8_t* block);
  void (*attend)(KvType type, const AttentionTask& task);
  RecurrenceKernels recurrence;
};

/** Products of rows from `firstRow` on. */
using MultiplyRowsKernel = void(const PackedMatrix& matrix, const Activations& x, int firstRow, int firstPanel,
                                int endPanel, const float* bias, float* out, size_t outStride);
/** Those with matrices of nibbles are compiled apart from the tables that they belong to. */
MultiplyRowsKernel multiplyNibblesAvx512bw, multiplyNibblesAvx512;
/** Of any matrix; floats take all rows. */
MultiplyRowsKernel multiplyRowsAvx512;

extern const KernelTable scalarKernels;
extern const KernelTable avx2Kernels;
extern const KernelTable avx512bwKernels;
extern const KernelTable avx512Kernels;
extern const KernelTable amxKernels;
extern const KernelTable neonKernels;
extern const KernelTable dotprodKernels;
extern const KernelTable i8mmKernels;

}  // namespace chairlift
