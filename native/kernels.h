// What the kernels take and the table through which they are called: one table per ISA, chosen at run time.
// All ISAs give the same bits: integer sums are exact, float sums keep one order.
#pragma once

#include <cstddef>
#include <cstdint>

namespace chairlift {

// Output columns that a panel holds side by side: one per lane.
constexpr int panelColumns = 16;
// Inputs that share one scale of a quantized activation.
constexpr int groupInputs = 32;
// Tokens of a K/V block.
constexpr int blockTokens = 32;
constexpr int maxHeadSize = 1024;

// Sums kept per group.
constexpr int groupSums = 3;

enum class Encoding : uint8_t { F32, F16, BF16, Byte, Nibble, Codebook };

/**
 * A weight matrix repacked into panels of 16 output columns. A panel of a quantized matrix holds, for each
 * group of 32 inputs, eight 64-byte rows (Byte) or four (Nibble, Codebook):
 *
 *   Byte    row q:  column 0 inputs 4q … 4q+3 | column 1 inputs 4q … 4q+3 | … | column 15
 *   Nibble  row q:  the same with inputs 4q … in the low and 4(q+4) … in the high half of each byte
 *
 * followed, for the whole panel, by 16 scales per scale group and, where `hasMinimum`, by 16 minimums.
 * A weight is `scale * (code - zero) + minimum`. A float panel holds 16 values per input, input by input.
 */
struct PackedMatrix {
  Encoding encoding;
  bool scaleF16;
  bool hasMinimum;
  int32_t zero;
  // Inputs per scale: 32, or 16 for formats with finer groups.
  int32_t scaleInputs;
  int32_t inputs;
  int32_t outputs;
  size_t panelBytes;
  size_t scaleOffset;
  size_t minimumOffset;
  const uint8_t* panels;
};

/** Rows of activations: float32 always, int8 with one scale per group of 32 where a quantized matrix reads them. */
struct Activations {
  int32_t rows;
  const float* values;
  size_t valueStride;
  const int8_t* codes;
  // Codes per row, a multiple of 32. Each group of 32 has one scale and three sums of codes: of its halves and of
  // the whole. A float holds a sum exactly.
  size_t codeStride;
  const float* scales;
  const float* sums;
};

/** Queries of one sequence and one K/V head, and where its K and V are. */
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
  // 0: every earlier token is seen.
  int32_t window;
  float scale;
  float softcap;
  // Block table of the sequence; K/V of a block for this head start at base + block * blockBytes.
  const int32_t* blocks;
  const uint8_t* base;
  size_t blockBytes;
  // Room for the softmax state, `attentionScratchFloats` values.
  float* scratch;
};

constexpr int attentionTile = 4;
constexpr size_t attentionScratchFloats(int headSize) {
  return size_t(attentionTile) * size_t((headSize + 15) / 16 * 16 + blockTokens);
}

enum class KvType : uint8_t { F16, Q8 };

/**
 * K/V of one head in one block. K lies transposed, [headSize][32 tokens], so that one lane is one token;
 * V lies [32 tokens][headSize rounded up to 16], so that one lane is one value. Q8 adds 32 float scales to each.
 */
constexpr size_t roundUp16(size_t n) { return (n + 15) / 16 * 16; }
constexpr size_t keyBytes(KvType type, int headSize) {
  return type == KvType::F16 ? size_t(headSize) * blockTokens * 2
                             : size_t(headSize) * blockTokens + blockTokens * sizeof(float);
}
constexpr size_t valueBytes(KvType type, int headSize) {
  return type == KvType::F16 ? roundUp16(headSize) * blockTokens * 2
                             : roundUp16(headSize) * blockTokens + blockTokens * sizeof(float);
}
constexpr size_t headBlockBytes(KvType type, int headSize) {
  return keyBytes(type, headSize) + valueBytes(type, headSize);
}

enum class Activation : uint8_t { Silu, GeluTanh };

struct KernelTable {
  const char* name;
  /**
   * out[row][column] = Σ x[row] w[column] + bias[column] for the panels from firstPanel up to endPanel.
   * `bias` is null or padded to whole panels.
   */
  void (*multiply)(const PackedMatrix& matrix, const Activations& x, int firstPanel, int endPanel,
                   const float* bias, float* out, size_t outStride);
  /** to = weight * x / rms(x); `count` values, buffers padded with zeros to 16. */
  void (*rmsNorm)(const float* x, const float* weight, float* to, int count, float epsilon);
  /** Codes, scales and sums of one row; count is a multiple of 32. */
  void (*quantize)(const float* x, int count, int8_t* codes, float* scales, float* sums);
  /** gate = activation(gate) * up. */
  void (*gateUp)(Activation activation, float* gate, const float* up, int count);
  /** Rotates pairs (i, i + half) of one head in place. */
  void (*rotate)(float* head, const float* cosines, const float* sines, int half);
  void (*addTo)(float* x, const float* delta, int count);
  void (*softcapInPlace)(float* x, int count, float cap);
  /** Writes one token's K and V of one head into its block at `token`. */
  void (*storeKv)(KvType type, const float* key, const float* value, int headSize, int token, uint8_t* block);
  void (*attend)(KvType type, const AttentionTask& task);
};

extern const KernelTable scalarKernels;
extern const KernelTable avx2Kernels;
extern const KernelTable avx512Kernels;
extern const KernelTable amxKernels;

}  // namespace chairlift
