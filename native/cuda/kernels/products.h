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

/** Bytes of a codebook by four indices in the low half of a word. */
CHAIRLIFT_DEVICE uint32_t lookUp(const uint32_t (&book)[4], uint32_t indices) {
  uint32_t found = 0;
#ifdef __CUDACC__
  // A permutation takes three bits of an index; the fourth chooses between two of them.
  const uint32_t low = indices & 0x7777u;
  const uint32_t first = __byte_perm(book[0], book[1], low), second = __byte_perm(book[2], book[3], low);
  // Byte i of the first is chosen by i, that of the second by i + 4.
  const uint32_t upper = (indices >> 3 & 0x1111u) * 4u;
  found = __byte_perm(first, second, 0x3210u + upper);
#else
  for (int i = 0; i < 4; i++) {
    const uint32_t index = indices >> (i * 4) & 15;
    found |= (book[index / 4] >> (index % 4 * 8) & 255) << (i * 8);
  }
#endif
  return found;
}

/** The operand of a group from its two words of nibbles; those of Encoding::Nibble sixteenfold, which their scale takes back. */
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
    a[0] = lookUp(book, first & 0xffffu);
    a[1] = lookUp(book, second & 0xffffu);
    a[2] = lookUp(book, first >> 16);
    a[3] = lookUp(book, second >> 16);
  }
}

/** The operand of a group from what a lane has loaded. */
template <class F>
CHAIRLIFT_DEVICE void unpackGroup(const Words4 (&loaded)[F::loads], const uint32_t (&book)[4], int i, uint32_t (&a)[4]) {
  if constexpr (F::isByte) {
    a[0] = loaded[i].x;
    a[1] = loaded[i].y;
    a[2] = loaded[i].z;
    a[3] = loaded[i].w;
  } else {
    const uint32_t first = i % 2 ? loaded[i / 2].z : loaded[i / 2].x, second = i % 2 ? loaded[i / 2].w : loaded[i / 2].y;
    unpackNibbles<F>(first, second, book, a);
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

/** The scales of a segment as a lane loads them, all at once: each is used sixteen groups later at most. */
template <class F>
struct SegmentScales {
  static constexpr bool isWide = F::scaleType == scaleF16 || F::scaleType == scaleBf16;
  static constexpr int words = isWide ? 4 : F::scaleType == scaleF32 ? 8 : 2;
  uint32_t raw[F::quads][words];

  /** `sharing`: groups with one scale, 2 or 4, of formats that share them. */
  CHAIRLIFT_METHOD void load(const uint8_t* from, int segment, int g, int sharing) {
    const int first = F::isShared && sharing == 4 ? segment : segment * F::quads;
#pragma unroll
    for (int q = 0; q < F::quads; q++) {
      if (F::isShared && sharing == 4 && q > 0) break;
      const uint8_t* const at = from + int64_t((first + q) * 8 + g) * words * 4;
      if constexpr (words == 2) {
        const Words2 own = *(const Words2*)at;
        raw[q][0] = own.x;
        raw[q][1] = own.y;
      } else {
#pragma unroll
        for (int half = 0; half < words / 4; half++) {
          const Words4 own = loadOnce((const Words4*)at + half);
          raw[q][half * 4] = own.x;
          raw[q][half * 4 + 1] = own.y;
          raw[q][half * 4 + 2] = own.z;
          raw[q][half * 4 + 3] = own.w;
        }
      }
    }
  }

  /** Those of outputs g and g + 8 for a part of group `i`. */
  CHAIRLIFT_METHOD void readOf(int i, int part, int sharing, float& first, float& second) const {
    if (F::isShared && sharing == 4) read(i / 4, first, second);
    else read(i * F::parts / F::sharing + part, first, second);
  }

  CHAIRLIFT_METHOD void read(int scaleGroup, float& first, float& second) const {
    const uint32_t(&own)[words] = raw[scaleGroup / 4];
    const int i = scaleGroup % 4;
    if constexpr (F::scaleType == scaleF16) {
      first = halfToFloat(uint16_t(own[i] & 0xffffu));
      second = halfToFloat(uint16_t(own[i] >> 16));
    } else if constexpr (F::scaleType == scaleBf16) {
      first = asFloat(own[i] << 16);
      second = asFloat(own[i] & 0xffff0000u);
    } else if constexpr (F::scaleType == scaleF32) {
      first = asFloat(own[i * 2]);
      second = asFloat(own[i * 2 + 1]);
    } else {
      const uint32_t bytes = own[i / 2] >> (i % 2 * 16);
      if constexpr (F::scaleType == scalePower) {
        first = powerOf(bytes & 255u);
        second = powerOf(bytes >> 8 & 255u);
      } else {
        first = float(int8_t(bytes & 255u));
        second = float(int8_t(bytes >> 8 & 255u));
      }
    }
  }
};

/** Where a lane reads the inputs of a segment, of the first of several tiles. */
struct SegmentInput {
  const Words2* codes;
  const Floats2* scales;
  const Floats2* sums;
  // From a tile to the next, in groups.
  int64_t tileGroups;

  CHAIRLIFT_METHOD SegmentInput(const InputView& input, int64_t tile, int segment) : tileGroups(input.groups) {
    const int lane = threadIndex() % 32, t = lane % 4;
    const int64_t at = tile * input.groups + segment * groupsOfSegment;
    codes = (const Words2*)input.codes + at * 32 + lane;
    scales = (const Floats2*)input.scales + at * (rowsOfTile / 2) + t;
    sums = (const Floats2*)input.sums + at * (3 * rowsOfTile / 2) + t;
  }
};

/** Adds one group's products to the sums of `tiles` tiles. */
template <class F, int tiles>
CHAIRLIFT_DEVICE void addGroup(const uint32_t (&a)[4], const SegmentInput& input, int i, float s0, float s1, float m0, float m1,
                               int part, float (&total)[tiles][4]) {
  constexpr bool isExact = F::scaleType == scaleF32;
  const float l0 = -liftValue * s0, l1 = -liftValue * s1;
#pragma unroll
  for (int r = 0; r < tiles; r++) {
    const int64_t tileAt = r * input.tileGroups;
    const Words2 b = input.codes[tileAt * 32 + i * 32];
    const Floats2 x = input.scales[tileAt * (rowsOfTile / 2) + i * (rowsOfTile / 2)];
    const int start = isExact ? 0 : liftBits, c[4] = {start, start, start, start};
    int d[4];
    multiplyTile<F::isUnsigned>(d, a, b, c);
    if (isExact) {
      total[r][0] = fusedMultiplyAdd(float(d[0]) * s0, x.x, total[r][0]);
      total[r][1] = fusedMultiplyAdd(float(d[1]) * s0, x.y, total[r][1]);
      total[r][2] = fusedMultiplyAdd(float(d[2]) * s1, x.x, total[r][2]);
      total[r][3] = fusedMultiplyAdd(float(d[3]) * s1, x.y, total[r][3]);
    } else {
      total[r][0] = fusedMultiplyAdd(fusedMultiplyAdd(asFloat(uint32_t(d[0])), s0, l0), x.x, total[r][0]);
      total[r][1] = fusedMultiplyAdd(fusedMultiplyAdd(asFloat(uint32_t(d[1])), s0, l0), x.y, total[r][1]);
      total[r][2] = fusedMultiplyAdd(fusedMultiplyAdd(asFloat(uint32_t(d[2])), s1, l1), x.x, total[r][2]);
      total[r][3] = fusedMultiplyAdd(fusedMultiplyAdd(asFloat(uint32_t(d[3])), s1, l1), x.y, total[r][3]);
    }
    if (F::hasMinimum) {
      const Floats2 y = input.sums[(tileAt + i) * (3 * rowsOfTile / 2) + part * (rowsOfTile / 2)];
      total[r][0] = fusedMultiplyAdd(m0, y.x, total[r][0]);
      total[r][1] = fusedMultiplyAdd(m0, y.y, total[r][1]);
      total[r][2] = fusedMultiplyAdd(m1, y.x, total[r][2]);
      total[r][3] = fusedMultiplyAdd(m1, y.y, total[r][3]);
    }
  }
}

/** The weights of a segment in registers. */
template <class F>
struct SegmentWeights {
  Words4 codes[F::loads];
  SegmentScales<F> scales, minimums;
  uint16_t supers[F::scaleType == scaleSuper ? 2 : 1][4];

  /** `count`: groups of the segment, sixteen but for the last. */
  CHAIRLIFT_METHOD void load(const MatrixView& matrix, int64_t panel, int segment, int count) {
    const int lane = threadIndex() % 32, g = lane / 4;
    const Words4* const from =
        (const Words4*)(matrix.codes + panel * matrix.codeStride) + int64_t(segment) * F::loads * 32 + lane;
    if (count == groupsOfSegment) {
#pragma unroll
      for (int i = 0; i < F::loads; i++) codes[i] = loadOnce(from + i * 32);
    } else {
#pragma unroll
      for (int i = 0; i < F::loads; i++) {
        codes[i] = Words4{0, 0, 0, 0};
        if (i * (groupsOfSegment / F::loads) < count) codes[i] = loadOnce(from + i * 32);
      }
    }
    const int sharing = matrix.scaleInputs / inputsOfGroup;
    scales.load(matrix.scales + panel * matrix.scaleStride, segment, g, sharing);
    if (F::hasMinimum) minimums.load(matrix.minimums + panel * matrix.minimumStride, segment, g, sharing);
    if constexpr (F::scaleType == scaleSuper) {
      constexpr int each = F::hasMinimum ? 4 : 2;
      const uint16_t* const own = (const uint16_t*)(matrix.supers + panel * matrix.superStride) + (segment * 2 * 8 + g) * each;
#pragma unroll
      for (int chunk = 0; chunk < 2; chunk++) {
#pragma unroll
        for (int i = 0; i < each; i++) supers[chunk][i] = chunk * 8 < count ? own[chunk * 8 * each + i] : uint16_t(0);
      }
    }
  }
};

/** One segment of a panel by one warp. */
template <class F, int tiles>
CHAIRLIFT_DEVICE void addSegment(const MatrixView& matrix, const SegmentWeights<F>& weights, const SegmentInput& input, int count,
                                 float (&total)[tiles][4]) {
  uint32_t book[4] = {};
  if (F::encoding == codeCodebook) {
    for (int i = 0; i < 4; i++) book[i] = matrix.codebook[i];
  }
  const int sharing = matrix.scaleInputs / inputsOfGroup;
#pragma unroll
  for (int i = 0; i < groupsOfSegment; i++) {
    if (i >= count) break;
    uint32_t a[4];
    unpackGroup<F>(weights.codes, book, i, a);
#pragma unroll
    for (int part = 0; part < F::parts; part++) {
      float s0, s1, m0 = 0, m1 = 0;
      weights.scales.readOf(i, part, sharing, s0, s1);
      if (F::hasMinimum) weights.minimums.readOf(i, part, sharing, m0, m1);
      if constexpr (F::scaleType == scaleSuper) {
        const uint16_t(&own)[4] = weights.supers[i / 8];
        s0 = s0 * halfToFloat(own[0]);
        s1 = s1 * halfToFloat(own[1]);
        if (F::hasMinimum) m0 = m0 * halfToFloat(own[2]), m1 = m1 * halfToFloat(own[3]);
      }
      if (F::encoding == codeNibble) s0 = s0 * (1.0f / 16), s1 = s1 * (1.0f / 16);
      if (F::encoding == codeCodebook) s0 = s0 * matrix.unit, s1 = s1 * matrix.unit;
      if constexpr (F::parts == 2) {
        const uint32_t half[4] = {part ? 0 : a[0], part ? 0 : a[1], part ? a[2] : 0, part ? a[3] : 0};
        addGroup<F, tiles>(half, input, i, s0, s1, m0, m1, 1 + part, total);
      } else {
        addGroup<F, tiles>(a, input, i, s0, s1, m0, m1, 0, total);
      }
    }
  }
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

/** Few rows: a warp for each segment. Blocks: x are panels of all parts, y are `tiles` tiles. */
template <class F, int tiles>
CHAIRLIFT_DEVICE void multiplyFew(const ProductArgs& args) {
  startNext();
  const int warp = threadIndex() / 32, lane = threadIndex() % 32, warps = threadCount() / 32, g = lane / 4, t = lane % 4;
  const ProductPlace place = placeOf(args, blockX());
  const ProductArgs::Part& part = args.parts[place.part];
  const MatrixView& matrix = part.matrix;
  if (args.tiles) waitForPrevious();
  const int firstTile = blockY() * tiles;
  if (args.tileCount && firstTile >= *args.tileCount) return;
  const Tile own = args.tiles ? args.tiles[firstTile]
                              : Tile{0, firstTile * rowsOfTile, args.rows - firstTile * rowsOfTile};
  const int64_t panel = int64_t(own.member) * matrix.panels + place.panel;
  const int groups = matrix.inputs / inputsOfGroup, segments = (groups + groupsOfSegment - 1) / groupsOfSegment;
  constexpr int rows = rowsOfTile * tiles;
  float* const partial = (float*)sharedMemory();
  for (int segment = warp; segment < segments; segment += warps) {
    const int left = groups - segment * groupsOfSegment, count = left < groupsOfSegment ? left : groupsOfSegment;
    SegmentWeights<F> weights;
    weights.load(matrix, panel, segment, count);
    // Weights are on their way while the kernels before end.
    if (segment == warp) waitForPrevious();
    float total[tiles][4] = {};
    const SegmentInput input(args.input, firstTile, segment);
    if (count == groupsOfSegment) addSegment<F, tiles>(matrix, weights, input, groupsOfSegment, total);
    else addSegment<F, tiles>(matrix, weights, input, count, total);
    float* const to = partial + segment * panelOutputs * rows;
#pragma unroll
    for (int r = 0; r < tiles; r++) {
      for (int i = 0; i < 4; i++) to[(g + i / 2 * 8) * rows + r * rowsOfTile + 2 * t + i % 2] = total[r][i];
    }
  }
  waitForPrevious();
  syncBlock();
  joinSegments(args, part, place.panel, own, partial, segments, rows);
}

}  // namespace
