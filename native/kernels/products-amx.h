// Matrix products of quantized matrices on AMX: up to 16 rows by 16 columns at a time, the integer part in tiles, the
// rest as in other kernels. Few rows and floats go to the kernels of AVX-512, which give the same bits.
// Include after the ISA's vec-*.h and codes-*.h.
#pragma once

#include <immintrin.h>

#include "kernels/products-frame.h"

namespace {

using namespace chairlift;

// A product leaves its tile after every scale group. Two tiles alternate: one is stored while the next product is computed, and
// added a step later. More are slower where the core is shared with another thread.
constexpr int productTiles = 2;
constexpr int storeLag = 1;
constexpr int readLag = 2;
constexpr int inputTile = 2, weightTile = 3;
// Below this many rows the vector kernels are as fast.
constexpr int fewestTileRows = fewestPairedRows;

struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t startRow = 0;
  uint8_t reserved[14] = {};
  uint16_t columnBytes[16] = {};
  uint8_t rows[16] = {};
};

/** For products of `rows` rows over `inputs` inputs. */
inline void configureTiles(int rows, int inputs) {
  TileConfig config;
  for (int tile = 0; tile < productTiles; tile++) {
    config.rows[tile] = uint8_t(rows);
    config.columnBytes[tile] = panelColumns * sizeof(int32_t);
  }
  config.rows[inputTile] = uint8_t(rows);
  config.columnBytes[inputTile] = uint16_t(inputs);
  config.rows[weightTile] = uint8_t(inputs / 4);
  config.columnBytes[weightTile] = 64;
  // The compiler's intrinsic has an operand of eight bytes: the rest might not be written yet.
  asm volatile("ldtilecfg %0" ::"m"(config));
}

// The compiler's intrinsics do not declare that a load reads memory, so stores could move past it.
template <int tile>
CHAIRLIFT_INLINE void loadTile(const void* from, size_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(tile) : "memory");
}

template <int tile>
CHAIRLIFT_INLINE void storeProduct(int32_t* to) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(size_t(64)), "i"(tile) : "memory");
}

template <int tile, bool signedCodes>
CHAIRLIFT_INLINE void makeProduct() {
  asm volatile("tilezero %%tmm%c0" ::"i"(tile));
  if constexpr (signedCodes) asm volatile("tdpbssd %%tmm%c1, %%tmm%c2, %%tmm%c0" ::"i"(tile), "i"(weightTile), "i"(inputTile));
  else asm volatile("tdpbsud %%tmm%c1, %%tmm%c2, %%tmm%c0" ::"i"(tile), "i"(weightTile), "i"(inputTile));
}

/** Nibbles as the bytes they stand for, each from one bit matrix. */
template <Encoding encoding>
CHAIRLIFT_INLINE void unpackNibbles(const Codebook* codebook, const uint8_t* from, uint8_t* to) {
  // For Nibble, x - 8 is x with its top bit turned over and spread over all bits above.
  constexpr bool centred = encoding == Encoding::Nibble;
  constexpr int turnedOver = centred ? 0xf8 : 0;
  const __m512i lower = _mm512_set1_epi64(centred ? 0x0102040808080808 : 0x0102040800000000);
  const __m512i upper = _mm512_set1_epi64(centred ? 0x1020408080808080 : 0x1020408000000000);
  __m512i table;
  if constexpr (encoding == Encoding::Codebook) {
    table = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i*)codebook->values));
  }
  repeat<4>([&](int q) CHAIRLIFT_LAMBDA {
    const __m512i packed = _mm512_loadu_si512(from + q * 64);
    __m512i low = _mm512_gf2p8affine_epi64_epi8(packed, lower, turnedOver);
    __m512i high = _mm512_gf2p8affine_epi64_epi8(packed, upper, turnedOver);
    if constexpr (encoding == Encoding::Codebook) {
      low = _mm512_shuffle_epi8(table, low);
      high = _mm512_shuffle_epi8(table, high);
    }
    _mm512_store_si512(to + q * 64, low);
    _mm512_store_si512(to + (q + 4) * 64, high);
  });
}

// Groups whose nibbles are unpacked at a time, before and while their products are made.
constexpr int unpackedGroups = 8;

// 1.5 * 2^23. Added to its bits, a whole number below 2^22 in magnitude is added to its value.
constexpr float liftValue = 12582912.0f;
constexpr int32_t liftBits = 0x4b400000;

/**
 * addShare for whole numbers straight from a tile. While tiles are at work, the core makes one vector of floats per cycle
 * instead of two, but still two of whole numbers; so the conversion is an addition to the bits of `liftValue`, which the
 * multiplication by the scale takes back. That is exact, and the rounding that of dot * scale, as long as the scale has
 * room for two more bits.
 */
CHAIRLIFT_INLINE Vec addLiftedShare(Vec total, const int32_t* dots, Vec scale, Vec liftedScale, float inputScale) {
  const __m512i bits = _mm512_add_epi32(_mm512_load_si512(dots), _mm512_set1_epi32(liftBits));
  return fma(fma(Vec{_mm512_castsi512_ps(bits)}, scale, liftedScale), Vec::set(inputScale), total);
}

/**
 * One panel times `rows` rows of one tile, product by product. A product takes one scale group or, where groups lie in
 * pairs, `span` = 2, one's rows below the other's.
 */
template <class Kind, int rows, int span, bool lifts>
struct TileCursor {
  static constexpr Encoding encoding = Kind::encoding;
  static constexpr int parts = Kind::parts, scaleInputs = Kind::scaleInputs;
  static constexpr int chunkNumbers = chunkGroups * parts / span;
  static constexpr bool paired = rows == pairedRows;
  // Lines that a scale group's share of a panel may touch.
  static constexpr int shareLines = (Kind::groupLines + parts - 1) / parts;
  // How many products' groups are unpacked before they are used.
  static constexpr int unpackLag = 2;

  const PackedMatrix& matrix;
  const uint8_t* panel;
  size_t chunkBytes, shareBytes;
  const int8_t* inputs;
  const GroupSide* sides;
  uint8_t* room;
  ChunkScales scales;
  SegmentSums<rows> segments;

  CHAIRLIFT_INLINE const uint8_t* packedCodes(int group) const {
    return panel + size_t(group / chunkGroups) * chunkBytes + size_t(group % chunkGroups) * Kind::codeBytes;
  }
  CHAIRLIFT_INLINE uint8_t* unpackedCodes(int group) const { return room + size_t(group % unpackedGroups) * 512; }

  /** Unpacks the groups from `first` on that a product takes. */
  CHAIRLIFT_INLINE void unpack(int first) {
    if constexpr (!Kind::isBytes) {
      if (first >= matrix.groups()) return;
      repeat<span>([&](int i) CHAIRLIFT_LAMBDA {
        unpackNibbles<encoding>(matrix.codebook, packedCodes(first + i), unpackedCodes(first + i));
      });
    }
  }

  template <int turn>
  CHAIRLIFT_INLINE void start(int number) {
    const int group = number * span / parts, part = number % parts;
    if (part == 0) unpack(group + unpackLag * span);
    const int8_t* rowsOfGroup = inputs + size_t(group) * groupCodes + part * scaleInputs;
    if constexpr (paired && span == 1) rowsOfGroup += group % 2 * groupInputs;
    const uint8_t* codes = Kind::isBytes ? packedCodes(group) : unpackedCodes(group);
    loadTile<inputTile>(rowsOfGroup, paired ? 2 * groupInputs : groupInputs);
    loadTile<weightTile>(codes + part * scaleInputs * panelColumns, 64);
    makeProduct<turn, isSigned(encoding)>();
  }

  CHAIRLIFT_INLINE void add(int number, const int32_t* product) {
    if (number % chunkNumbers == 0) {
      const int chunk = number / chunkNumbers;
      if (chunk > 0 && chunk % segmentChunks == 0) segments.endSegment();
      scales = ChunkScales(matrix, panel + size_t(chunk) * chunkBytes, matrix.groupsIn(chunk));
    }
    repeat<span>([&](int i) CHAIRLIFT_LAMBDA {
      const int inChunk = number % chunkNumbers * span + i;
      const GroupSide& side = sides[(number * span + i) / parts];
      const Vec scale = scales.template scale<Kind>(inChunk), liftedScale = scale * Vec::set(-liftValue);
      const int32_t* dots = product + i * rows * panelColumns;
      const uint8_t* ahead = panel + size_t(number * span + i) * shareBytes + prefetchBytes;
      repeat<rows>([&](int r) CHAIRLIFT_LAMBDA {
        // Prefetches are interleaved with the sums: all at once they would stall.
        repeat<shareLines>([&](int line) CHAIRLIFT_LAMBDA {
          if (line * rows / shareLines == r) __builtin_prefetch(ahead + line * 64);
        });
        const int32_t* row = dots + r * panelColumns;
        Vec& total = segments.total[r];
        if constexpr (lifts) total = addLiftedShare(total, row, scale, liftedScale, side.scale[r]);
        else total = addShare(total, Vec{_mm512_cvtepi32_ps(_mm512_load_si512(row))}, scale, side.scale[r]);
      });
      if (Kind::mayHaveMinimum && matrix.hasMinimum) addMinimums<Kind>(scales, inChunk, side, 0, segments.total);
    });
  }
};

using TileProducts = int32_t[productTiles][tileRows * panelColumns];

/** Starts product `number`, stores the one before and adds the one before that, as far as they exist. */
template <int turn, bool all, class Cursor>
CHAIRLIFT_INLINE void advance(Cursor& cursor, TileProducts& products, int number, int count) {
  constexpr int stored = (turn + productTiles - storeLag) % productTiles;
  if (all || number < count) cursor.template start<turn>(number);
  if (all || (number >= storeLag && number - storeLag < count)) storeProduct<stored>(products[stored]);
  if (all || (number >= readLag && number - readLag < count)) cursor.add(number - readLag, products[turn]);
  if constexpr (turn + 1 < productTiles) advance<turn + 1, all>(cursor, products, number + 1, count);
}

/** The first `real` of `rows` rows from `row` on, where a tile begins, against one panel; the others are dropped. */
template <class Kind, int rows, int span, bool lifts>
void multiplyTileRows(const Product& p, int row, int panel, int real) {
  using Cursor = TileCursor<Kind, rows, span, lifts>;
  const uint8_t* weights = p.panelAt(panel);
  alignas(64) uint8_t room[Kind::isBytes ? 64 : unpackedGroups * 512];
  Cursor cursor{p.matrix,
                weights,
                p.matrix.chunkBytes(chunkGroups),
                p.matrix.groupBytes() / Cursor::parts,
                p.codesAt(row),
                p.sidesAt(row),
                room,
                ChunkScales(p.matrix, weights, p.matrix.groupsIn(0)),
                {}};
  for (int i = 0; i < Cursor::unpackLag; i++) cursor.unpack(i * span);
  alignas(64) TileProducts products;
  const int count = p.matrix.inputs / (Kind::scaleInputs * span);
  for (int number = 0; number < count + readLag; number += productTiles) {
    if (number >= readLag && number + productTiles <= count) advance<0, true>(cursor, products, number, count);
    else advance<0, false>(cursor, products, number, count);
  }
  cursor.segments.endSegment();

  alignas(64) float results[rows * panelColumns];
  repeat<rows>([&](int r) CHAIRLIFT_LAMBDA { cursor.segments.sum[r].store(results + r * panelColumns); });
  for (int r = 0; r < real; r++) p.store(Vec::load(results + r * panelColumns), row + r, panel);
}

// Inputs that stay in the second-level cache while panels pass by.
constexpr size_t tileBlockBytes = 512 << 10;

template <class Kind, bool lifts>
void multiplyOnTiles(const Product& p) {
  constexpr int scaleInputs = Kind::scaleInputs;
  const int tiles = p.x.rows / tileRows, rest = p.x.rows - tiles * tileRows;
  const int fit = int(tileBlockBytes / (size_t(p.matrix.inputs) * tileRows));
  const int block = fit > 1 ? fit : 1;
  if (tiles > 0) configureTiles(tileRows, scaleInputs);
  for (int first = 0; first < tiles; first += block) {
    const int end = first + block < tiles ? first + block : tiles;
    for (int panel = p.firstPanel; panel < p.endPanel; panel++) {
      for (int tile = first; tile < end; tile++) {
        multiplyTileRows<Kind, tileRows, 1, lifts>(p, tile * tileRows, panel, tileRows);
      }
    }
  }
  if (rest >= fewestTileRows) {
    constexpr int span = scaleInputs == groupInputs ? 2 : 1;
    const bool paired = isPaired(rest, p.matrix.groups());
    configureTiles(paired ? pairedRows * span : tileRows, paired ? scaleInputs * span : scaleInputs);
    const auto run = paired ? multiplyTileRows<Kind, pairedRows, span, lifts> : multiplyTileRows<Kind, tileRows, 1, lifts>;
    for (int panel = p.firstPanel; panel < p.endPanel; panel++) run(p, tiles * tileRows, panel, rest);
  }
  if (p.x.rows >= fewestTileRows) _tile_release();
  if (rest > 0 && rest < fewestTileRows) {
    multiplyRowsAvx512(p.matrix, p.x, tiles * tileRows, p.firstPanel, p.endPanel, p.bias, p.out, p.outStride);
  }
}

void multiplyAmx(const PackedMatrix& matrix, const Activations& x, int firstPanel, int endPanel, const float* bias,
                 float* out, size_t outStride) {
  const Product p{matrix, x, firstPanel, endPanel, bias, out, outStride};
  forKind(matrix, [&](auto kind) {
    using Kind = decltype(kind);
    if constexpr (Kind::isFloat) multiplyRowsAvx512(matrix, x, 0, firstPanel, endPanel, bias, out, outStride);
    else {
      // float32 scales have no bits left for lifting.
      if constexpr (takesScales(Kind::encoding, Kind::scaleInputs, ScaleType::F32)) {
        if (matrix.scaleType == ScaleType::F32) return multiplyOnTiles<Kind, false>(p);
      }
      multiplyOnTiles<Kind, true>(p);
    }
  });
}

}  // namespace
