// See source-format.h. Packing is lossless: values stay as the file has them.

#include "model/source-format.h"

#include <cstring>
#include <type_traits>

#include "kernels/float-bits.h"
#include "model/iq-readers.h"
#include "model/source-codes.h"

namespace chairlift {

namespace {

// Blocks of one group.

void readQ8_0(const uint8_t* block, GroupCodes& to) {
  to.scales[0] = halfAt(block);
  memcpy(to.codes, block + 2, groupInputs);
}

// Four-bit blocks pair inputs as panels do.

void readMXFP4(const uint8_t* block, GroupCodes& to) {
  to.scales[0] = block[0];
  memcpy(to.codes, block + 1, 16);
}

/** Scales become halves, at a 256th; NaN stays NaN. */
void readNVFP4(const uint8_t* block, GroupCodes& to) {
  for (int half = 0; half < 2; half++) {
    to.scales[half] = (block[half] & 127) == 127 ? 0x7e00 : f8ToHalf(block[half]);
  }
  memcpy(to.codes, block + 2, 16);
}

void readQ4_0(const uint8_t* block, GroupCodes& to) {
  to.scales[0] = halfAt(block);
  memcpy(to.codes, block + 2, 16);
}

void readQ4_1(const uint8_t* block, GroupCodes& to) {
  to.scales[0] = halfAt(block);
  to.minimums[0] = halfAt(block + 2);
  memcpy(to.codes, block + 4, 16);
}

void readQ5_0(const uint8_t* block, GroupCodes& to) {
  to.scales[0] = halfAt(block);
  storeBytes(subtract(addAbove(splitNibbles(block + 6), spreadBits(block + 2), 4), 16), to);
}

void readQ5_1(const uint8_t* block, GroupCodes& to) {
  to.scales[0] = halfAt(block);
  to.minimums[0] = halfAt(block + 2);
  storeBytes(addAbove(splitNibbles(block + 8), spreadBits(block + 4), 4), to);
}

template <int blockBytes, void (*readBlock)(const uint8_t* block, GroupCodes& to)>
void readBlocks(const uint8_t* row, int chunk, int count, ChunkCodes& to) {
  for (int i = 0; i < count; i++) readBlock(row + size_t(chunk * chunkGroups + i) * blockBytes, to.groups[i]);
}

// Super-blocks of eight groups.

void readQ2_K(const uint8_t* block, ChunkCodes& to) {
  to.superScale = halfAt(block + 80);
  to.superMinimum = minusHalfAt(block + 82);
  for (int g = 0; g < 8; g++) {
    storeNibbles(fields(block + 16 + (g / 4) * 32, 2 * (g % 4), 3), to.groups[g]);
    for (int half = 0; half < 2; half++) {
      to.groups[g].scales[half] = block[2 * g + half] & 15;
      to.groups[g].minimums[half] = block[2 * g + half] >> 4;
    }
  }
}

int scaleQ3_K(const uint8_t* scales, int index) {
  const int low = index < 8 ? scales[index] & 15 : scales[index - 8] >> 4;
  const int high = (scales[8 + index % 4] >> (2 * (index / 4))) & 3;
  return (low | high << 4) - 32;
}

void readQ3_K(const uint8_t* block, ChunkCodes& to) {
  to.superScale = halfAt(block + 108);
  for (int g = 0; g < 8; g++) {
    const Codes low = fields(block + 32 + (g / 4) * 32, 2 * (g % 4), 3);
    // Codes 0 … 7 stand for -4 … 3; a nibble's zero is 8.
    const Codes codes = addAbove(low, fields(block, g, 1), 2);
    storeNibbles({codes.first + everyByte(4), codes.second + everyByte(4)}, to.groups[g]);
    for (int half = 0; half < 2; half++) to.groups[g].scales[half] = uint32_t(scaleQ3_K(block + 96, 2 * g + half));
  }
}

/** Scales and minimums of Q4_K and Q5_K, six bits each. */
void readSixBits(const uint8_t* block, ChunkCodes& to) {
  to.superScale = halfAt(block);
  to.superMinimum = minusHalfAt(block + 2);
  const uint8_t* packed = block + 4;
  for (int g = 0; g < 8; g++) {
    const int scale = g < 4 ? packed[g] & 63 : (packed[g + 4] & 15) | (packed[g - 4] >> 6) << 4;
    const int minimum = g < 4 ? packed[g + 4] & 63 : (packed[g + 4] >> 4) | (packed[g] >> 6) << 4;
    to.groups[g].scales[0] = uint32_t(scale);
    to.groups[g].minimums[0] = uint32_t(minimum);
  }
}

void readQ4_K(const uint8_t* block, ChunkCodes& to) {
  readSixBits(block, to);
  for (int g = 0; g < 8; g++) storeNibbles(fields(block + 16 + (g / 2) * 32, 4 * (g % 2), 15), to.groups[g]);
}

void readQ5_K(const uint8_t* block, ChunkCodes& to) {
  readSixBits(block, to);
  for (int g = 0; g < 8; g++) {
    const Codes low = fields(block + 48 + (g / 2) * 32, 4 * (g % 2), 15);
    storeBytes(addAbove(low, fields(block + 16, g, 1), 4), to.groups[g]);
  }
}

void readQ6_K(const uint8_t* block, ChunkCodes& to) {
  to.superScale = halfAt(block + 208);
  for (int g = 0; g < 8; g++) {
    const int half = g / 4, part = g % 4;
    const Codes low = fields(block + half * 64 + (part % 2) * 32, 4 * (part / 2), 15);
    storeBytes(subtract(addAbove(low, fields(block + 128 + half * 32, 2 * part, 3), 4), 32), to.groups[g]);
    for (int h = 0; h < 2; h++) to.groups[g].scales[h] = block[192 + 2 * g + h];
  }
}

void readIQ4_XS(const uint8_t* block, ChunkCodes& to) {
  to.superScale = halfAt(block);
  const int highBits = block[2] | block[3] << 8;
  for (int g = 0; g < 8; g++) {
    const int low = (block[4 + g / 2] >> (4 * (g % 2))) & 15;
    const int high = (highBits >> (2 * g)) & 3;
    to.groups[g].scales[0] = uint32_t((low | high << 4) - 32);
    memcpy(to.groups[g].codes, block + 8 + g * 16, 16);
  }
}

// Ternary codes 0 … 2 stand for -1 … 1; a nibble's zero is 8.
constexpr uint64_t ternaryZero = 7;

void setOneScale(uint16_t scale, ChunkCodes& to) {
  to.superScale = scale;
  for (GroupCodes& group : to.groups) group.scales[0] = 1;
}

void readTQ1_0(const uint8_t* block, ChunkCodes& to) {
  setOneScale(halfAt(block + 52), to);
  uint8_t codes[chunkGroups * groupInputs];
  uint8_t* end = codes;
  // Base-3 digits: the overflow of three times a fraction of 256.
  const auto read = [&](const uint8_t* from, int count, int digits) {
    uint8_t rest[32];
    memcpy(rest, from, size_t(count));
    for (int digit = 0; digit < digits; digit++) {
      for (int i = 0; i < count; i++) {
        *end++ = uint8_t((rest[i] * 3 >> 8) + int(ternaryZero));
        rest[i] = uint8_t(rest[i] * 3);
      }
    }
  };
  read(block, 32, 5);
  read(block + 32, 16, 5);
  read(block + 48, 4, 4);
  for (int g = 0; g < 8; g++) storeNibbles({bytesAt(codes + 32 * g), bytesAt(codes + 32 * g + 16)}, to.groups[g]);
}

void readTQ2_0(const uint8_t* block, ChunkCodes& to) {
  setOneScale(halfAt(block + 64), to);
  for (int g = 0; g < 8; g++) {
    const Codes codes = fields(block + (g / 4) * 32, 2 * (g % 4), 3);
    storeNibbles({codes.first + everyByte(ternaryZero), codes.second + everyByte(ternaryZero)}, to.groups[g]);
  }
}

template <int blockBytes, void (*readBlock)(const uint8_t* block, ChunkCodes& to)>
void readSuperBlock(const uint8_t* row, int chunk, int, ChunkCodes& to) {
  readBlock(row + size_t(chunk) * blockBytes, to);
}

/** Codes in a row of bits, the first in the lowest. */
template <int bits>
Codes bitCodes(const uint8_t* packed) {
  uint8_t codes[groupInputs];
  for (int eight = 0; eight < groupInputs; eight += 8, packed += bits) {
    uint64_t row = 0;
    memcpy(&row, packed, bits);
    for (int i = 0; i < 8; i++) codes[eight + i] = uint8_t(row >> (bits * i) & ((1u << bits) - 1));
  }
  return {bytesAt(codes), bytesAt(codes + 16)};
}

/** Four bits each: input i + 16 above input i. */
void storePairs(const uint8_t* packed, GroupCodes& to) {
  uint16_t pairs[8];
  for (int j = 0; j < 8; j++) {
    const unsigned low = packed[j], high = packed[j + 8];
    pairs[j] = uint16_t((low & 15) | (high & 15) << 4 | (low >> 4) << 8 | (high >> 4) << 12);
  }
  memcpy(to.codes, pairs, sizeof pairs);
}

/** MLX: { scale, bias, codes in a row of bits } per block of `size` weights. */
template <int bits, int size, class Number>
void readMlx(const uint8_t* row, int chunk, int count, ChunkCodes& to) {
  constexpr int groupBytes = groupInputs * bits / 8, perBlock = size / groupInputs, numberBytes = sizeof(Number);
  const auto numberAt = [](const uint8_t* from) { return numberBytes == 4 ? wordAt(from) : halfAt(from); };
  for (int i = 0; i < count; i++) {
    const int group = chunk * chunkGroups + i;
    const uint8_t* block = row + size_t(group / perBlock) * (2 * numberBytes + perBlock * groupBytes);
    const uint8_t* packed = block + 2 * numberBytes + (group % perBlock) * groupBytes;
    to.groups[i].scales[0] = numberAt(block);
    to.groups[i].minimums[0] = numberAt(block + numberBytes);
    if constexpr (bits == 8) memcpy(to.groups[i].codes, packed, groupInputs);
    else if constexpr (bits == 4) storePairs(packed, to.groups[i]);
    else if constexpr (bits < 4) storeNibbles(bitCodes<bits>(packed), to.groups[i]);
    else storeBytes(bitCodes<bits>(packed), to.groups[i]);
  }
}

template <int bits, int size, ScaleType scaleType>
constexpr SourceFormat mlx(const char* name) {
  using Number = std::conditional_t<scaleType == ScaleType::F32, uint32_t, uint16_t>;
  constexpr Encoding encoding =
      bits <= 4 ? Encoding::UnsignedNibble : bits < 8 ? Encoding::Byte : Encoding::UnsignedByte;
  return {name, size, 2 * int(sizeof(Number)) + size * bits / 8, encoding, size, scaleType, true, nullptr,
          readMlx<bits, size, Number>};
}

// Of one size of groups, by the type of scales and biases.
#define MLX_FORMATS(bits, size)                                      \
  mlx<bits, size, ScaleType::F32>("MLX" #bits "_G" #size),           \
      mlx<bits, size, ScaleType::F16>("MLX" #bits "_G" #size "_F16"), \
      mlx<bits, size, ScaleType::BF16>("MLX" #bits "_G" #size "_BF16")

// Steps of a grid at 0 … 7, and negated at 8 … 15; those of IQ1 are moved up and down by an eighth.
constexpr Codebook iq1 = {{-7, 1, 9, 0, 0, 0, 0, 0, -9, -1, 7, 0, 0, 0, 0, 0}, 0.125f};
constexpr Codebook iq2 = {{8, 25, 43, 0, 0, 0, 0, 0, -8, -25, -43, 0, 0, 0, 0, 0}, 0.125f};
constexpr Codebook iq3xxs = {{4, 12, 20, 28, 36, 44, 52, 62, -4, -12, -20, -28, -36, -44, -52, -62}, 0.25f};
constexpr Codebook iq3s = {{1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15}, 1};

constexpr Codebook iq4 = {{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}, 1};

// Floats of four bits, doubled.
constexpr Codebook fp4 = {{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}, 0.5f};

// For scales at a 256th of the file's.
constexpr Codebook fp4Scaled = {{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}, 128.0f};

constexpr SourceFormat formats[] = {
    // name, block, bytes, encoding, inputs per scale, scales, minimum, codebook, reader
    {"F32", 1, 4, Encoding::F32, 0, ScaleType::F32, false, nullptr, nullptr},
    {"F16", 1, 2, Encoding::F16, 0, ScaleType::F32, false, nullptr, nullptr},
    {"BF16", 1, 2, Encoding::BF16, 0, ScaleType::F32, false, nullptr, nullptr},
    {"F8_G32", 32, 36, Encoding::F8, 0, ScaleType::F32, false, nullptr, nullptr},
    {"F8_G128", 128, 132, Encoding::F8, 0, ScaleType::F32, false, nullptr, nullptr},
    {"Q8_0", 32, 34, Encoding::Byte, 32, ScaleType::F16, false, nullptr, readBlocks<34, readQ8_0>},
    {"Q4_0", 32, 18, Encoding::Nibble, 32, ScaleType::F16, false, nullptr, readBlocks<18, readQ4_0>},
    {"Q4_1", 32, 20, Encoding::UnsignedNibble, 32, ScaleType::F16, true, nullptr, readBlocks<20, readQ4_1>},
    {"Q5_0", 32, 22, Encoding::Byte, 32, ScaleType::F16, false, nullptr, readBlocks<22, readQ5_0>},
    {"Q5_1", 32, 24, Encoding::Byte, 32, ScaleType::F16, true, nullptr, readBlocks<24, readQ5_1>},
    {"Q2_K", 256, 84, Encoding::UnsignedNibble, 16, ScaleType::Super, true, nullptr, readSuperBlock<84, readQ2_K>},
    {"Q3_K", 256, 110, Encoding::Nibble, 16, ScaleType::Super, false, nullptr, readSuperBlock<110, readQ3_K>},
    {"Q4_K", 256, 144, Encoding::UnsignedNibble, 32, ScaleType::Super, true, nullptr, readSuperBlock<144, readQ4_K>},
    {"Q5_K", 256, 176, Encoding::Byte, 32, ScaleType::Super, true, nullptr, readSuperBlock<176, readQ5_K>},
    {"Q6_K", 256, 210, Encoding::Byte, 16, ScaleType::Super, false, nullptr, readSuperBlock<210, readQ6_K>},
    {"IQ1_S", 256, 50, Encoding::Codebook, 32, ScaleType::Super, false, &iq1, readSuperBlock<50, readIQ1_S>},
    {"IQ1_M", 256, 56, Encoding::Codebook, 16, ScaleType::Super, false, &iq1, readSuperBlock<56, readIQ1_M>},
    {"IQ2_XXS", 256, 66, Encoding::Codebook, 32, ScaleType::Super, false, &iq2, readSuperBlock<66, readIQ2_XXS>},
    {"IQ2_XS", 256, 74, Encoding::Codebook, 16, ScaleType::Super, false, &iq2, readSuperBlock<74, readIQ2_XS>},
    {"IQ2_S", 256, 82, Encoding::Codebook, 16, ScaleType::Super, false, &iq2, readSuperBlock<82, readIQ2_S>},
    {"IQ3_XXS", 256, 98, Encoding::Codebook, 32, ScaleType::Super, false, &iq3xxs, readSuperBlock<98, readIQ3_XXS>},
    {"IQ3_S", 256, 110, Encoding::Codebook, 32, ScaleType::Super, false, &iq3s, readSuperBlock<110, readIQ3_S>},
    {"IQ4_NL", 32, 18, Encoding::Codebook, 32, ScaleType::F16, false, &iq4, readBlocks<18, readQ4_0>},
    {"IQ4_XS", 256, 136, Encoding::Codebook, 32, ScaleType::Super, false, &iq4, readSuperBlock<136, readIQ4_XS>},
    {"TQ1_0", 256, 54, Encoding::Nibble, 32, ScaleType::Super, false, nullptr, readSuperBlock<54, readTQ1_0>},
    {"TQ2_0", 256, 66, Encoding::Nibble, 32, ScaleType::Super, false, nullptr, readSuperBlock<66, readTQ2_0>},
    {"MXFP4", 32, 17, Encoding::Codebook, 32, ScaleType::Power, false, &fp4, readBlocks<17, readMXFP4>},
    {"NVFP4", 32, 18, Encoding::Codebook, 16, ScaleType::F16, false, &fp4Scaled, readBlocks<18, readNVFP4>},
    MLX_FORMATS(2, 32), MLX_FORMATS(2, 64), MLX_FORMATS(2, 128),
    MLX_FORMATS(3, 32), MLX_FORMATS(3, 64), MLX_FORMATS(3, 128),
    MLX_FORMATS(4, 32), MLX_FORMATS(4, 64), MLX_FORMATS(4, 128),
    MLX_FORMATS(5, 32), MLX_FORMATS(5, 64), MLX_FORMATS(5, 128),
    MLX_FORMATS(6, 32), MLX_FORMATS(6, 64), MLX_FORMATS(6, 128),
    MLX_FORMATS(8, 32), MLX_FORMATS(8, 64), MLX_FORMATS(8, 128),
};

#undef MLX_FORMATS

constexpr bool areTaken() {
  for (const SourceFormat& format : formats) {
    if (!format.read) continue;
    if (!takesScales(format.encoding, format.scaleInputs, format.scaleType)) return false;
    if (format.hasMinimum && !takesMinimums(format.encoding, format.scaleInputs)) return false;
  }
  return true;
}
static_assert(areTaken(), "kernels take the scales and minimums of all formats");

}  // namespace

const SourceFormat* findFormat(const char* name) {
  for (const SourceFormat& format : formats) {
    if (strcmp(format.name, name) == 0) return &format;
  }
  return nullptr;
}

}  // namespace chairlift
