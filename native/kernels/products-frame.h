// What all families of matrix products share: kinds of matrices, tiling by rows, scales and outputs. A family adds its dot
// products.
// Include after the ISA's vec-*.h and codes-*.h.
#pragma once

#include "kernels/kernels.h"
#include "kernels/repeat.h"

namespace {

using namespace chairlift;

/** A kind of matrix as constants: its encoding, and how many inputs of a group share a scale, 0 for floats. */
template <Encoding itsEncoding, int itsScaleInputs>
struct Kind {
  static constexpr Encoding encoding = itsEncoding;
  static constexpr int scaleInputs = itsScaleInputs;
  static constexpr bool isFloat = scaleInputs == 0;
  static constexpr bool isBytes = encoding == Encoding::Byte || encoding == Encoding::UnsignedByte;
  static constexpr int parts = isFloat ? 1 : groupInputs / (isFloat ? groupInputs : scaleInputs);
  // What a group's codes take, and how many lines its share of a panel may touch.
  static constexpr size_t codeBytes = isBytes ? 512 : 256;
  static constexpr int groupLines = isBytes ? 9 : 5;
  static constexpr bool mayHaveMinimum = takesMinimums(encoding, scaleInputs);

  /** Which of a group's sums goes with a scale: that of the whole, or that of its half. */
  static constexpr int sumIndex(int part) { return parts == 1 ? 0 : 1 + part; }
};

inline bool hasNibbles(const PackedMatrix& matrix) {
  return matrix.encoding == Encoding::Nibble || matrix.encoding == Encoding::UnsignedNibble ||
         matrix.encoding == Encoding::Codebook;
}

/** Calls run(Kind<…>) with the kind of a matrix of nibbles. */
template <class Run>
void forNibbles(const PackedMatrix& matrix, const Run& run) {
  const bool fine = matrix.scaleInputs == 16;
  switch (matrix.encoding) {
    case Encoding::Nibble: return fine ? run(Kind<Encoding::Nibble, 16>()) : run(Kind<Encoding::Nibble, 32>());
    case Encoding::UnsignedNibble:
      return fine ? run(Kind<Encoding::UnsignedNibble, 16>()) : run(Kind<Encoding::UnsignedNibble, 32>());
    default: return fine ? run(Kind<Encoding::Codebook, 16>()) : run(Kind<Encoding::Codebook, 32>());
  }
}

/** For any other matrix. */
template <class Run>
void forWholeCodes(const PackedMatrix& matrix, const Run& run) {
  switch (matrix.encoding) {
    case Encoding::F32: return run(Kind<Encoding::F32, 0>());
    case Encoding::F16: return run(Kind<Encoding::F16, 0>());
    case Encoding::BF16: return run(Kind<Encoding::BF16, 0>());
    case Encoding::F8: return run(Kind<Encoding::F8, 0>());
    case Encoding::UnsignedByte: return run(Kind<Encoding::UnsignedByte, 32>());
    default:
      return matrix.scaleInputs == 16 ? run(Kind<Encoding::Byte, 16>()) : run(Kind<Encoding::Byte, 32>());
  }
}

/** For all. */
template <class Run>
void forKind(const PackedMatrix& matrix, const Run& run) {
  if (hasNibbles(matrix)) return forNibbles(matrix, run);
  forWholeCodes(matrix, run);
}

struct Product {
  const PackedMatrix& matrix;
  const Activations& x;
  int firstPanel, endPanel;
  // Null, or padded to whole panels.
  const float* bias;
  float* out;
  size_t outStride;

  const uint8_t* panelAt(int panel) const { return matrix.panels + size_t(panel) * matrix.panelBytes; }
  // Of a row's tile.
  const int8_t* codesAt(int row) const { return x.codes + size_t(row / tileRows) * x.tileGroups * groupCodes; }
  const GroupSide* sidesAt(int row) const { return x.sides + size_t(row / tileRows) * x.tileGroups; }
  // A row's first group, and how far the next is.
  const float* valuesAt(int row) const {
    return x.values + size_t(row / tileRows) * x.tileGroups * groupCodes + row % tileRows * groupInputs;
  }
  size_t groupStride(int row) const {
    const int rows = x.rows - row / tileRows * tileRows;
    return size_t(rows < tileRows ? rows : tileRows) * groupInputs;
  }

  CHAIRLIFT_INLINE void store(Vec total, int row, int panel) const {
    storeSum(bias ? total + Vec::load(bias + panel * panelColumns) : total, row, panel);
  }
  /** Without the bias. */
  CHAIRLIFT_INLINE void storeSum(Vec sum, int row, int panel) const {
    float* const to = out + size_t(row) * outStride + panel * panelColumns;
    const int columns = matrix.outputs - panel * panelColumns;
    if (columns >= panelColumns) return sum.store(to);
    float lanes[panelColumns];
    sum.store(lanes);
    memcpy(to, lanes, size_t(columns) * sizeof(float));
  }
  CHAIRLIFT_INLINE Vec load(int row, int panel) const {
    const float* const from = out + size_t(row) * outStride + panel * panelColumns;
    const int columns = matrix.outputs - panel * panelColumns;
    if (columns >= panelColumns) return Vec::load(from);
    float lanes[panelColumns] = {};
    memcpy(lanes, from, size_t(columns) * sizeof(float));
    return Vec::load(lanes);
  }
};

/**
 * Calls run(Constant<count>, row) for rows of [row, end), at most `most` of one tile at a time. A tile's rows are shared
 * out evenly: each share walks the whole panel, so few shares count, and none should be small.
 */
template <int most, class Run>
CHAIRLIFT_INLINE void takeRows(int row, int end, const Run& run) {
  while (row < end) {
    const int tileEnd = (row / tileRows + 1) * tileRows, left = (end < tileEnd ? end : tileEnd) - row;
    const int shares = (left + most - 1) / most, count = (left + shares - 1) / shares;
    withCount<most>(count, [&](auto rows) CHAIRLIFT_LAMBDA { run(rows, row); });
    row += count;
  }
}

/** The same for each panel, so that a panel stays cached: run(Constant<count>, row, panel). */
template <int most, class Run>
CHAIRLIFT_INLINE void takePanels(const Product& product, int firstRow, const Run& run) {
  for (int panel = product.firstPanel; panel < product.endPanel; panel++) {
    takeRows<most>(firstRow, product.x.rows, [&](auto count, int row) CHAIRLIFT_LAMBDA { run(count, row, panel); });
  }
}

// A group's 32 inputs as eight Codes of 16 columns x 4 inputs.
constexpr int codesPerGroup = groupInputs / 4;

// How far ahead weights are prefetched. Panels are contiguous, so this also covers the start of the next.
constexpr int prefetchBytes = 8192;

/** A group's codes and its share of the scales. */
template <class Kind>
CHAIRLIFT_INLINE void prefetchGroup(const uint8_t* from) {
  // Always inlined: GCC takes a call of a function that does nothing but prefetch for one without effect.
  repeat<Kind::groupLines>([&](int line) CHAIRLIFT_LAMBDA { __builtin_prefetch(from + line * 64); });
}

template <class Kind>
CHAIRLIFT_INLINE void loadGroup(const PackedMatrix& matrix, const uint8_t* from, Codes (&codes)[codesPerGroup]) {
  constexpr Encoding encoding = Kind::encoding;
  if constexpr (Kind::isBytes) {
    repeat<8>([&](int q) CHAIRLIFT_LAMBDA { codes[q] = loadBytes<encoding>(from + q * 64); });
  } else {
    repeat<4>([&](int q) CHAIRLIFT_LAMBDA {
      loadNibbles<encoding>(matrix.codebook, from + q * 64, codes[q], codes[q + 4]);
    });
  }
}

/** Scales and minimums of one chunk, by scale group within it, or by group where several groups share one. */
struct ChunkScales {
  ScaleType type;
  // Groups that share a scale, as a power of two.
  int sharedShift;
  const uint8_t* scales;
  const uint8_t* minimums;
  const uint16_t* supers;
  const Codebook* codebook;

  // Always inlined: with a call, scales go through memory, and AMX loses a fifth.
  CHAIRLIFT_INLINE ChunkScales(const PackedMatrix& matrix, const uint8_t* chunk, int groups)
      : type(matrix.scaleType),
        sharedShift(matrix.scaleInputs <= groupInputs ? 0 : matrix.scaleInputs == 2 * groupInputs ? 1 : 2),
        scales(chunk + matrix.scalesAt(groups)),
        minimums(chunk + matrix.minimumsAt(groups)),
        supers((const uint16_t*)(chunk + matrix.supersAt(groups))),
        codebook(matrix.codebook) {}

  CHAIRLIFT_INLINE ChunkScales ahead(size_t bytes) const {
    ChunkScales other = *this;
    other.scales += bytes;
    other.minimums += bytes;
    other.supers += bytes / sizeof(uint16_t);
    return other;
  }

  template <class Kind>
  CHAIRLIFT_INLINE Vec scale(int scaleGroup) const {
    const Vec scale = load<Kind>(scales, 0, scaleGroup);
    return Kind::encoding == Encoding::Codebook ? scale * Vec::set(codebook->unit) : scale;
  }
  // The vector kernels multiply nibbles sixteenfold; their scale takes it back, which is exact.
  template <class Kind>
  CHAIRLIFT_INLINE Vec codeScale(int scaleGroup) const {
    return Kind::encoding == Encoding::Nibble ? scale<Kind>(scaleGroup) * Vec::set(1.0f / 16) : scale<Kind>(scaleGroup);
  }
  template <class Kind>
  CHAIRLIFT_INLINE Vec minimum(int scaleGroup) const {
    return load<Kind>(minimums, panelColumns, scaleGroup);
  }

 private:
  template <class Kind>
  CHAIRLIFT_INLINE bool is(ScaleType one) const {
    return takesScales(Kind::encoding, Kind::scaleInputs, one) && type == one;
  }
  template <class Kind>
  CHAIRLIFT_INLINE Vec load(const uint8_t* from, int super, int scaleGroup) const {
    const size_t at = size_t(scaleGroup) * panelColumns, sharedAt = size_t(scaleGroup >> sharedShift) * panelColumns;
    if (is<Kind>(ScaleType::F16)) return Vec::loadF16((const uint16_t*)from + sharedAt);
    if (is<Kind>(ScaleType::BF16)) return Vec::loadBf16((const uint16_t*)from + sharedAt);
    if (is<Kind>(ScaleType::Power)) return Vec::loadPowers(from + at);
    if (is<Kind>(ScaleType::F32)) return Vec::load((const float*)from + sharedAt);
    return Vec::loadI8((const int8_t*)from + at) * Vec::loadF16(supers + super);
  }
};

/** A scale group's share of a sum: rounded after the weights' scale, and with the sum after the inputs'. */
CHAIRLIFT_INLINE Vec addShare(Vec total, Vec dot, Vec scale, float inputScale) {
  return fma(dot * scale, Vec::set(inputScale), total);
}

/** What a scale group's minimums add to the sums: minimum * (input scale * input sum). */
template <class Kind, int rows>
CHAIRLIFT_INLINE void addMinimums(const ChunkScales& scales, int scaleGroup, const GroupSide& side, size_t firstRow,
                                  Vec (&total)[rows]) {
  const Vec minimum = scales.template minimum<Kind>(scaleGroup);
  const float* sums = side.sum[Kind::sumIndex(scaleGroup % Kind::parts)] + firstRow;
  repeat<rows>([&](int r) CHAIRLIFT_LAMBDA { total[r] = fma(minimum, Vec::set(sums[r]), total[r]); });
}

/** Totals of the segment under way, and the sums of those before it. */
template <int rows>
struct SegmentSums {
  Vec total[rows], sum[rows];

  // Sums start at -0: any first total is added to it unchanged, even a -0.
  CHAIRLIFT_INLINE SegmentSums() {
    repeat<rows>([&](int r) CHAIRLIFT_LAMBDA {
      total[r] = Vec::zero();
      sum[r] = Vec::set(-0.0f);
    });
  }

  CHAIRLIFT_INLINE void endSegment() {
    repeat<rows>([&](int r) CHAIRLIFT_LAMBDA {
      sum[r] = sum[r] + total[r];
      total[r] = Vec::zero();
    });
  }
};

/** Whether a segment ends with a chunk. */
inline bool endsSegment(const PackedMatrix& matrix, int chunk) {
  return chunk % segmentChunks == segmentChunks - 1 || chunk + 1 == matrix.chunks();
}

/**
 * Accumulates `rows` rows of a tile, from `firstRow` on, against one panel of a quantized matrix: for each scale group
 * total += dot * scale * input scale, then what its minimums add. `Dots` makes the dot products: it is made of a matrix,
 * a group's codes and inputs, and adds up those of each part.
 */
template <class Kind, template <class, int> class Dots, int rows>
CHAIRLIFT_INLINE void addGroups(const PackedMatrix& matrix, const uint8_t* panel, const int8_t* tileCodes,
                                const GroupSide* sides, size_t firstRow, SegmentSums<rows>& segments) {
  constexpr int parts = Kind::parts;
  const int8_t* inputs = tileCodes + firstRow * groupInputs;
  const uint8_t* chunk = panel;
  const size_t groupBytes = matrix.groupBytes();

  for (int c = 0; c < matrix.chunks(); c++) {
    const int groups = matrix.groupsIn(c);
    const ChunkScales scales(matrix, chunk, groups);
    for (int i = 0; i < groups; i++) {
      prefetchGroup<Kind>(chunk + size_t(i) * groupBytes + prefetchBytes);
      const Dots<Kind, rows> dots(matrix, chunk + i * Kind::codeBytes, inputs);
      const float* inputScales = sides->scale + firstRow;
      repeat<parts>([&](int part) CHAIRLIFT_LAMBDA {
        const int32_t* offsets = sides->offset[Kind::sumIndex(part)] + firstRow;
        Sums sums[rows];
        repeat<rows>([&](int r) CHAIRLIFT_LAMBDA { sums[r] = startDot<Kind::encoding>(offsets + r); });
        dots.addPart(part, sums);
        const Vec scale = scales.codeScale<Kind>(i * parts + part);
        repeat<rows>([&](int r) CHAIRLIFT_LAMBDA {
          const Vec dot = finishDot<Kind::encoding>(sums[r], offsets + r);
          segments.total[r] = addShare(segments.total[r], dot, scale, inputScales[r]);
        });
        if (Kind::mayHaveMinimum && matrix.hasMinimum) addMinimums<Kind>(scales, i * parts + part, *sides, firstRow, segments.total);
      });
      inputs += groupCodes;
      sides++;
    }
    if (endsSegment(matrix, c)) segments.endSegment();
    chunk += matrix.chunkBytes(groups);
  }
}

/** `rows` rows of one tile, from `row` on, against one panel of a quantized matrix. */
template <class Kind, template <class, int> class Dots, int rows>
inline void multiplyCodes(const Product& p, int row, int panel) {
  SegmentSums<rows> segments;
  addGroups<Kind, Dots>(p.matrix, p.panelAt(panel), p.codesAt(row), p.sidesAt(row), row % tileRows, segments);
  repeat<rows>([&](int r) CHAIRLIFT_LAMBDA { p.store(segments.sum[r], row + r, panel); });
}

}  // namespace
