// Products of quantized matrices with rows of int8 codes. One matrix instruction takes a group of 32 inputs of 16 outputs and eight
// rows; its sums are whole numbers, exact in any order. They are scaled as the processor does it, and added in its order: within a
// segment of 512 inputs one after the other, then segment after segment.
// Include after codes.h.
#pragma once

namespace {

// A whole number n below 2^22 that is added to it reads as the float 1.5 * 2^23 + n.
constexpr int liftBits = 0x4B400000;
constexpr float liftValue = 12582912.0f;

/** A kind of matrix as constants. `scaleInputs` of 64 stand for 128, too: `isShared`, and the matrix says by how many groups. */
template <int itsEncoding, int itsScaleType, int itsScaleInputs, bool itsMinimum>
struct Format {
  static constexpr int encoding = itsEncoding, scaleType = itsScaleType, scaleInputs = itsScaleInputs;
  static constexpr bool hasMinimum = itsMinimum;
  static constexpr bool isByte = encoding == codeByte || encoding == codeUnsignedByte;
  static constexpr bool isUnsigned = encoding == codeUnsignedByte || encoding == codeUnsignedNibble;
  // Scales of 24 bits leave none for `liftValue`.
  static constexpr bool isExact = scaleType == scaleF32;
  static constexpr int bytesOfScale = scaleType == scaleF32 ? 4 : scaleType == scaleF16 || scaleType == scaleBf16 ? 2 : 1;
  // Of a chunk, where scales have them.
  static constexpr int superBytes = hasMinimum ? 64 : 32;
  // Scales within a group, and the fewest groups that share one.
  static constexpr int parts = scaleInputs == 16 ? 2 : 1;
  static constexpr bool isShared = scaleInputs > 32;
  static constexpr int sharing = isShared ? 2 : 1;
  // Words4 that a lane reads of a segment, and quads of scale groups that a segment has.
  static constexpr int loads = isByte ? groupsOfSegment : groupsOfSegment / 2;
  static constexpr int scaleGroups = groupsOfSegment * parts / sharing;
  static constexpr int quads = (scaleGroups + 3) / 4;
};

/** Bytes by four indices in the low half of a word: from 0 to 3 those of `a`, then those of `b`. */
CHAIRLIFT_DEVICE uint32_t permuted(uint32_t a, uint32_t b, uint32_t indices) {
#ifdef __CUDACC__
  return __byte_perm(a, b, indices);
#else
  uint32_t found = 0;
  for (int i = 0; i < 4; i++) {
    const uint32_t index = indices >> (i * 4) & 7;
    found |= ((index < 4 ? a : b) >> (index % 4 * 8) & 255) << (i * 8);
  }
  return found;
#endif
}

/** Bytes of a codebook by the indices in the low half of a word, and by those in the high half. */
CHAIRLIFT_DEVICE void lookUp(const uint32_t (&book)[4], uint32_t indices, uint32_t& lower, uint32_t& upper) {
  // A permutation takes three bits of an index; the fourth chooses between two of them: byte i of the first, or of the second,
  // which is i + 4.
  const uint32_t low = indices & 0x77777777u, chosen = (indices >> 1 & 0x44444444u) | 0x32103210u;
  lower = permuted(permuted(book[0], book[1], low), permuted(book[2], book[3], low), chosen);
  upper = permuted(permuted(book[0], book[1], low >> 16), permuted(book[2], book[3], low >> 16), chosen >> 16);
}

/** The operand of a group from its two words of nibbles; those of Encoding::Nibble sixteenfold: see `unitOf`. */
template <class F>
CHAIRLIFT_DEVICE void unpackNibbles(uint32_t first, uint32_t second, const uint32_t (&book)[4], uint32_t (&a)[4]) {
  if constexpr (F::encoding == codeNibble) {
    a[0] = first << 4 & 0xf0f0f0f0u;
    a[1] = second << 4 & 0xf0f0f0f0u;
    a[2] = first & 0xf0f0f0f0u;
    a[3] = second & 0xf0f0f0f0u;
  } else if constexpr (F::encoding == codeUnsignedNibble) {
    a[0] = first & 0x0f0f0f0fu;
    a[1] = second & 0x0f0f0f0fu;
    a[2] = first >> 4 & 0x0f0f0f0fu;
    a[3] = second >> 4 & 0x0f0f0f0fu;
  } else {
    lookUp(book, first, a[0], a[2]);
    lookUp(book, second, a[1], a[3]);
  }
}

/** As `multiplyTile`, of 16 x 16 and 16 x 8 bytes: half a group. */
template <bool isUnsigned>
CHAIRLIFT_DEVICE void multiplyHalf(int (&d)[4], uint32_t a0, uint32_t a1, uint32_t b, const int (&c)[4]) {
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 800
  if (isUnsigned) {
    asm("mma.sync.aligned.m16n8k16.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%8,%9,%10};"
        : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
        : "r"(a0), "r"(a1), "r"(b), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%8,%9,%10};"
        : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
        : "r"(a0), "r"(a1), "r"(b), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]));
  }
#else
  const uint32_t a[4] = {a0, a1, 0, 0};
  multiplyTile<isUnsigned>(d, a, Words2{b, 0}, c);
#endif
}

/** Where a block reads: a panel of one of the parts, and its tile. */
struct ProductPlace {
  int part, panel;
};

CHAIRLIFT_DEVICE ProductPlace placeOf(const ProductArgs& args, int panel) {
  int part = 0;
  while (part + 1 < args.partCount && panel >= args.parts[part].matrix.panels) panel -= args.parts[part++].matrix.panels;
  return {part, panel};
}

/** Adds the partial sums of segments in order and writes them. `partial`: [segment][output][row]. */
CHAIRLIFT_DEVICE void joinSegments(const ProductArgs& args, const ProductArgs::Part& part, int panel, const Tile& own,
                                   const float* partial, int segments, int rows) {
  const int outputs = part.matrix.outputs;
  const float* const bias = part.bias ? part.bias + (int64_t(own.member) * part.matrix.panels + panel) * panelOutputs : nullptr;
  for (int i = threadIndex(); i < panelOutputs * rows; i += threadCount()) {
    const int column = i % panelOutputs, row = i / panelOutputs, output = panel * panelOutputs + column;
    float sum = partial[column * rows + row];
    for (int segment = 1; segment < segments; segment++) {
      sum = sum + partial[(segment * panelOutputs + column) * rows + row];
    }
    if (bias) sum = sum + bias[column];
    if (row < own.rows && output < outputs) args.out[int64_t(own.firstRow + row) * args.outStride + part.offset + output] = sum;
  }
}

}  // namespace
