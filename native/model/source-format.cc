// See source-format.h. Each reader follows its format's definition; values stay as they are, so nothing is lost.

#include "model/source-format.h"

#include <cstring>

#include "kernels/float-bits.h"

namespace chairlift {

namespace {

uint16_t halfAt(const uint8_t* from) {
  uint16_t bits;
  memcpy(&bits, from, sizeof bits);
  return bits;
}

uint16_t minusHalfAt(const uint8_t* from) { return halfAt(from) ^ 0x8000; }

uint32_t wordAt(const uint8_t* from) {
  uint32_t value;
  memcpy(&value, from, sizeof value);
  return value;
}

// Sixteen bytes, shifted as two words and masked byte by byte.
using Bytes = uint64_t __attribute__((vector_size(16)));

Bytes bytesAt(const uint8_t* from) {
  Bytes bytes;
  memcpy(&bytes, from, sizeof bytes);
  return bytes;
}

constexpr uint64_t everyByte(uint64_t byte) { return byte * 0x0101010101010101u; }

/** A field of each byte. The mask drops what the shift brings over from a neighbour. */
Bytes field(Bytes bytes, int shift, uint64_t mask) { return (bytes >> shift) & everyByte(mask); }

/** The codes of a group, a byte each. */
struct Codes {
  Bytes first, second;
};

Codes fields(const uint8_t* from, int shift, uint64_t mask) {
  return {field(bytesAt(from), shift, mask), field(bytesAt(from + 16), shift, mask)};
}

Codes addAbove(const Codes& low, const Codes& high, int bits) {
  return {low.first | high.first << bits, low.second | high.second << bits};
}

/** Moves codes that stand for values from -zero on to those values. */
Codes subtract(const Codes& codes, uint64_t zero) {
  // Per byte: the borrow of each stays in its own top bit, which the last step sets right.
  const auto less = [&](Bytes a) {
    const Bytes b = Bytes{} + everyByte(zero), top = Bytes{} + everyByte(0x80);
    return ((a | top) - b) ^ top;
  };
  return {less(codes.first), less(codes.second)};
}

/** Inputs 0 … 15 from the low and 16 … 31 from the high halves of sixteen bytes. */
Codes splitNibbles(const uint8_t* from) {
  return {field(bytesAt(from), 0, 15), field(bytesAt(from), 4, 15)};
}

/** A bit for each code. */
Codes spreadBits(const uint8_t* from) {
  // Byte j keeps bit j alone; adding the rest up to 128 carries it into the top bit.
  const auto spread = [](uint8_t low, uint8_t high) {
    const Bytes alone = Bytes{everyByte(low), everyByte(high)} & 0x8040201008040201u;
    return field(alone + 0x00406070787c7e7fu, 7, 1);
  };
  return {spread(from[0], from[1]), spread(from[2], from[3])};
}

void storeBytes(const Codes& codes, GroupCodes& to) { memcpy(to.codes, &codes, sizeof codes); }

/** For codes of up to four bits: input i + 16 above input i. */
void storeNibbles(const Codes& codes, GroupCodes& to) {
  const Bytes pairs = codes.first | codes.second << 4;
  memcpy(to.codes, &pairs, sizeof pairs);
}

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

template <int blockBytes, void (*readBlock)(const uint8_t* block, ChunkCodes& to)>
void readSuperBlock(const uint8_t* row, int chunk, int, ChunkCodes& to) {
  readBlock(row + size_t(chunk) * blockBytes, to);
}

/** MLX: { float32 scale, float32 bias, packed codes } per block of `size` weights; at four bits neighbours share a byte. */
template <int bits, int size>
void readMlx(const uint8_t* row, int chunk, int count, ChunkCodes& to) {
  constexpr int groupBytes = groupInputs * bits / 8, perBlock = size / groupInputs;
  for (int i = 0; i < count; i++) {
    const int group = chunk * chunkGroups + i;
    const uint8_t* block = row + size_t(group / perBlock) * (8 + perBlock * groupBytes);
    const uint8_t* packed = block + 8 + (group % perBlock) * groupBytes;
    to.groups[i].scales[0] = wordAt(block);
    to.groups[i].minimums[0] = wordAt(block + 4);
    if constexpr (bits == 8) {
      memcpy(to.groups[i].codes, packed, groupInputs);
    } else {
      // Inputs 2j and 2j + 1, each with the one 16 inputs on above it.
      uint16_t pairs[8];
      for (int j = 0; j < 8; j++) {
        const unsigned low = packed[j], high = packed[j + 8];
        pairs[j] = uint16_t((low & 15) | (high & 15) << 4 | (low >> 4) << 8 | (high >> 4) << 12);
      }
      memcpy(to.groups[i].codes, pairs, sizeof pairs);
    }
  }
}

constexpr Codebook iq4 = {{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}, 1};

// Floats of four bits, doubled.
constexpr Codebook fp4 = {{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}, 0.5f};

const SourceFormat formats[] = {
    // name, block, bytes, encoding, inputs per scale, scales, minimum, codebook, reader
    {"F32", 1, 4, Encoding::F32, 0, ScaleType::F32, false, nullptr, nullptr},
    {"F16", 1, 2, Encoding::F16, 0, ScaleType::F32, false, nullptr, nullptr},
    {"BF16", 1, 2, Encoding::BF16, 0, ScaleType::F32, false, nullptr, nullptr},
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
    {"IQ4_NL", 32, 18, Encoding::Codebook, 32, ScaleType::F16, false, &iq4, readBlocks<18, readQ4_0>},
    {"IQ4_XS", 256, 136, Encoding::Codebook, 32, ScaleType::Super, false, &iq4, readSuperBlock<136, readIQ4_XS>},
    {"MXFP4", 32, 17, Encoding::Codebook, 32, ScaleType::Power, false, &fp4, readBlocks<17, readMXFP4>},
    {"MLX4_G32", 32, 24, Encoding::UnsignedNibble, 32, ScaleType::F32, true, nullptr, readMlx<4, 32>},
    {"MLX4_G64", 64, 40, Encoding::UnsignedNibble, 32, ScaleType::F32, true, nullptr, readMlx<4, 64>},
    {"MLX4_G128", 128, 72, Encoding::UnsignedNibble, 32, ScaleType::F32, true, nullptr, readMlx<4, 128>},
    {"MLX8_G32", 32, 40, Encoding::UnsignedByte, 32, ScaleType::F32, true, nullptr, readMlx<8, 32>},
    {"MLX8_G64", 64, 72, Encoding::UnsignedByte, 32, ScaleType::F32, true, nullptr, readMlx<8, 64>},
    {"MLX8_G128", 128, 136, Encoding::UnsignedByte, 32, ScaleType::F32, true, nullptr, readMlx<8, 128>},
};

}  // namespace

const SourceFormat* findFormat(const char* name) {
  for (const SourceFormat& format : formats) {
    if (strcmp(format.name, name) == 0) return &format;
  }
  return nullptr;
}

}  // namespace chairlift
