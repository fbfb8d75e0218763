// Matrix products of quantized matrices on AMX: up to 16 rows by 16 columns at a time, the integer part in tiles, the
// rest as everywhere else. Few rows go to the vector kernels, which give the same bits.
// Include after kernels-matrix.h of the AVX-512 family.
#pragma once

#include <immintrin.h>

#include "kernels.h"

namespace {

using namespace chairlift;

// A product has to leave its tile after every scale group, which takes the port that makes products. So products wait
// in several tiles: one is stored while later ones are made, and read only when its store is long done.
constexpr int productTiles = 4;
constexpr int storeLag = 3;
// As many as there are tiles: a product is read just before its place is taken.
constexpr int readLag = productTiles;
constexpr int inputTile = 4, weightTile = 5;
// Below this many rows the vector kernels are as fast.
constexpr int fewestTileRows = 5;

struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t startRow = 0;
  uint8_t reserved[14] = {};
  uint16_t columnBytes[16] = {};
  uint8_t rows[16] = {};
};

inline void configureTiles(int rows, int scaleInputs) {
  TileConfig config;
  for (int tile = 0; tile < productTiles; tile++) {
    config.rows[tile] = uint8_t(rows);
    config.columnBytes[tile] = panelColumns * sizeof(int32_t);
  }
  config.rows[inputTile] = uint8_t(rows);
  config.columnBytes[inputTile] = uint16_t(scaleInputs);
  config.rows[weightTile] = uint8_t(scaleInputs / 4);
  config.columnBytes[weightTile] = 64;
  // Not the compiler's own wrapper: its operand covers eight bytes, and the rest may not have been written yet.
  asm volatile("ldtilecfg %0" ::"m"(config));
}

// The compiler's own wrappers do not say that a load reads memory, so stores could move past it.
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

/** Chunks unpacked for products: nibbles as bytes, scales and minimums as floats. Stays in the first-level cache. */
template <Encoding encoding, int scaleInputs>
class TileRoom {
 public:
  static constexpr int parts = groupInputs / scaleInputs;
  // Floats of the scales, and bytes of the codes, of a chunk.
  static constexpr int chunkScales = chunkGroups * parts * panelColumns;
  static constexpr int chunkCodes = isBytes(encoding) ? 0 : chunkGroups * 512;

  TileRoom(const PackedMatrix& matrix, const uint8_t* panel) : matrix_(matrix), panel_(panel) { unpack(0); }

  const float* scales(int chunk) const { return scales_[chunk % scaleChunks]; }
  const float* minimums(int chunk) const { return minimums_[chunk % scaleChunks]; }
  const uint8_t* codes(int chunk) const {
    return isBytes(encoding) ? panel_ + size_t(chunk) * matrix_.chunkBytes(chunkGroups) : codes_[chunk % codeChunks];
  }

  void unpack(int chunk) {
    if (chunk >= matrix_.chunks()) return;
    const uint8_t* from = panel_ + size_t(chunk) * matrix_.chunkBytes(chunkGroups);
    const int groups = matrix_.groupsIn(chunk);
    const ChunkScales packed(matrix_, from, groups);
    for (int i = 0; i < groups * parts; i++) {
      packed.scale<encoding>(i).store(scales_[chunk % scaleChunks] + i * panelColumns);
      if (matrix_.hasMinimum) packed.minimum(i).store(minimums_[chunk % scaleChunks] + i * panelColumns);
    }
    if constexpr (!isBytes(encoding)) {
      for (int i = 0; i < groups; i++) unpackCodes(from + i * 256, codes_[chunk % codeChunks] + i * 512);
    }
  }

 private:
  // Codes of two chunks: the one in use and the one ahead. Sums follow products, so their scales need a third, and a
  // fourth makes it a power of two.
  static constexpr unsigned codeChunks = 2, scaleChunks = 4;

  CHAIRLIFT_INLINE static void unpackCodes(const uint8_t* from, uint8_t* to) {
    if constexpr (encoding == Encoding::Nibble) {
      // (x & 0xf0) ^ 0x80, one instruction for both.
      const __m512i mask = _mm512_set1_epi8(char(0xf0)), flip = _mm512_set1_epi8(char(0x80));
      repeat<4>([&](int q) CHAIRLIFT_LAMBDA {
        const __m512i packed = _mm512_loadu_si512(from + q * 64);
        _mm512_store_si512(to + q * 64, _mm512_ternarylogic_epi32(_mm512_slli_epi16(packed, 4), mask, flip, 0x6a));
        _mm512_store_si512(to + (q + 4) * 64, _mm512_ternarylogic_epi32(packed, mask, flip, 0x6a));
      });
    } else {
      Codes values[codesPerGroup];
      loadGroup<encoding>(from, values);
      const __m512i toSigned = _mm512_set1_epi8(isSigned(encoding) ? char(0x80) : 0);
      repeat<codesPerGroup>([&](int q) CHAIRLIFT_LAMBDA {
        _mm512_store_si512(to + q * 64, _mm512_xor_si512(values[q].bytes, toSigned));
      });
    }
  }

  const PackedMatrix& matrix_;
  const uint8_t* panel_;
  alignas(64) float scales_[scaleChunks][chunkScales];
  alignas(64) float minimums_[scaleChunks][chunkScales];
  alignas(64) uint8_t codes_[codeChunks][isBytes(encoding) ? 64 : chunkCodes];
};

/** One panel times `rows` rows of one tile, one scale group after another. */
template <Encoding encoding, int scaleInputs, int rows>
struct TileCursor {
  using Room = TileRoom<encoding, scaleInputs>;
  static constexpr int parts = Room::parts;
  static constexpr int chunkNumbers = chunkGroups * parts;

  Room& room;
  const int8_t* inputs;
  const GroupSide* side;
  bool hasMinimum;
  // What is asked for next, and how far on from group to group.
  const uint8_t* ahead;
  size_t groupBytes;
  const uint8_t* codes;
  const float* scales;
  const float* minimums;
  Vec total[rows];

  /** Makes product `number` in tile `turn`. */
  template <int turn>
  CHAIRLIFT_INLINE void start(int number) {
    if (number % chunkNumbers == 0) {
      room.unpack(number / chunkNumbers + 1);
      codes = room.codes(number / chunkNumbers);
    }
    if (number % parts == 0) {
      prefetchGroup<encoding>(ahead);
      ahead += groupBytes;
    }
    loadTile<inputTile>(inputs, groupInputs);
    loadTile<weightTile>(codes, 64);
    makeProduct<turn, isSigned(encoding)>();
    codes += scaleInputs * panelColumns;
    inputs += parts == 1 ? groupCodes : number % 2 == 0 ? scaleInputs : groupCodes - scaleInputs;
  }

  /** Adds product `number` to the sums. */
  CHAIRLIFT_INLINE void add(int number, const int32_t* product) {
    if (number % chunkNumbers == 0) {
      scales = room.scales(number / chunkNumbers);
      minimums = room.minimums(number / chunkNumbers);
    }
    const Vec scale = Vec::load(scales);
    repeat<rows>([&](int r) CHAIRLIFT_LAMBDA {
      const Vec dot = {_mm512_cvtepi32_ps(_mm512_load_si512(product + r * panelColumns))};
      total[r] = fma(dot, scale * Vec::set(side->scale[r]), total[r]);
    });
    if (hasMinimum) {
      const Vec minimum = Vec::load(minimums);
      const float* sums = side->sum[parts == 1 ? 0 : 1 + number % 2];
      repeat<rows>([&](int r) CHAIRLIFT_LAMBDA { total[r] = fma(minimum, Vec::set(sums[r]), total[r]); });
    }
    scales += panelColumns;
    minimums += panelColumns;
    if (parts == 1 || number % 2 == 1) side++;
  }
};

using TileProducts = int32_t[productTiles][tileRows * panelColumns];

/** Starts product `number`, stores an earlier one and adds one that is earlier still, each as far as there is one. */
template <int turn, bool all, class Cursor>
CHAIRLIFT_INLINE void advance(Cursor& cursor, TileProducts& products, int number, int count) {
  constexpr int stored = (turn + productTiles - storeLag) % productTiles;
  if (all || number < count) cursor.template start<turn>(number);
  if (all || (number >= storeLag && number - storeLag < count)) storeProduct<stored>(products[stored]);
  if (all || (number >= readLag && number - readLag < count)) cursor.add(number - readLag, products[turn]);
  if constexpr (turn + 1 < productTiles) advance<turn + 1, all>(cursor, products, number + 1, count);
}

struct Product {
  const PackedMatrix& matrix;
  const Activations& x;
  const float* bias;
  float* out;
  size_t outStride;
};

/** The first `real` of `rows` rows of one tile against one panel; the others are computed and dropped. */
template <Encoding encoding, int scaleInputs, int rows>
void multiplyTileRows(const Product& p, int tile, int panel, int real) {
  const size_t at = size_t(tile) * p.x.tileGroups;
  const uint8_t* weights = p.matrix.panels + size_t(panel) * p.matrix.panelBytes;
  TileRoom<encoding, scaleInputs> room(p.matrix, weights);
  // Chunks are unpacked one ahead, so that much more is asked for in advance.
  TileCursor<encoding, scaleInputs, rows> cursor{room,
                                                 p.x.codes + at * groupCodes,
                                                 p.x.sides + at,
                                                 p.matrix.hasMinimum,
                                                 weights + p.matrix.chunkBytes(chunkGroups),
                                                 p.matrix.panelBytes / size_t(p.matrix.groups()),
                                                 nullptr,
                                                 nullptr,
                                                 nullptr,
                                                 {}};
  repeat<rows>([&](int r) CHAIRLIFT_LAMBDA { cursor.total[r] = Vec::zero(); });
  alignas(64) TileProducts products;
  const int count = p.matrix.inputs / scaleInputs;
  for (int number = 0; number < count + readLag; number += productTiles) {
    if (number >= readLag && number + productTiles <= count) advance<0, true>(cursor, products, number, count);
    else advance<0, false>(cursor, products, number, count);
  }

  alignas(64) float results[rows * panelColumns];
  repeat<rows>([&](int r) CHAIRLIFT_LAMBDA { cursor.total[r].store(results + r * panelColumns); });
  const int column = panel * panelColumns;
  float* out = p.out + size_t(tile) * tileRows * p.outStride + column;
  for (int r = 0; r < real; r++) {
    storeColumns(Vec::load(results + r * panelColumns), p.bias ? p.bias + column : nullptr, out + size_t(r) * p.outStride,
                 p.matrix.outputs - column);
  }
}

// Inputs that stay in the second-level cache while panels pass by.
constexpr size_t tileBlockBytes = 512 << 10;

template <Encoding encoding, int scaleInputs>
void multiplyOnTiles(const PackedMatrix& matrix, const Activations& x, int firstPanel, int endPanel, const float* bias,
                     float* out, size_t outStride) {
  const Product p{matrix, x, bias, out, outStride};
  const int tiles = x.rows / tileRows, rest = x.rows - tiles * tileRows;
  const int fit = int(tileBlockBytes / (size_t(matrix.inputs) * tileRows));
  const int block = fit > 1 ? fit : 1;
  if (tiles > 0) configureTiles(tileRows, scaleInputs);
  for (int first = 0; first < tiles; first += block) {
    const int end = first + block < tiles ? first + block : tiles;
    for (int panel = firstPanel; panel < endPanel; panel++) {
      for (int tile = first; tile < end; tile++) {
        multiplyTileRows<encoding, scaleInputs, tileRows>(p, tile, panel, tileRows);
      }
    }
  }
  if (rest >= fewestTileRows) {
    configureTiles(rest <= 8 ? 8 : tileRows, scaleInputs);
    const auto run = rest <= 8 ? multiplyTileRows<encoding, scaleInputs, 8> : multiplyTileRows<encoding, scaleInputs, tileRows>;
    for (int panel = firstPanel; panel < endPanel; panel++) run(p, tiles, panel, rest);
  }
  if (x.rows >= fewestTileRows) _tile_release();
  if (rest > 0 && rest < fewestTileRows) {
    multiplyPanels<encoding, scaleInputs>(matrix, x, tiles * tileRows, firstPanel, endPanel, bias, out, outStride);
  }
}

void multiplyAmx(const PackedMatrix& matrix, const Activations& x, int firstPanel, int endPanel, const float* bias,
                 float* out, size_t outStride) {
  const bool fine = matrix.scaleInputs == 16;
  const auto run = [&](auto multiplyIt) { multiplyIt(matrix, x, firstPanel, endPanel, bias, out, outStride); };
  switch (matrix.encoding) {
    case Encoding::Byte:
      return run(fine ? multiplyOnTiles<Encoding::Byte, 16> : multiplyOnTiles<Encoding::Byte, 32>);
    case Encoding::UnsignedByte: return run(multiplyOnTiles<Encoding::UnsignedByte, 32>);
    case Encoding::Nibble:
      return run(fine ? multiplyOnTiles<Encoding::Nibble, 16> : multiplyOnTiles<Encoding::Nibble, 32>);
    case Encoding::UnsignedNibble:
      return run(fine ? multiplyOnTiles<Encoding::UnsignedNibble, 16> : multiplyOnTiles<Encoding::UnsignedNibble, 32>);
    case Encoding::Codebook: return run(multiplyOnTiles<Encoding::Codebook, 32>);
    default: return multiply(matrix, x, firstPanel, endPanel, bias, out, outStride);
  }
}

}  // namespace
