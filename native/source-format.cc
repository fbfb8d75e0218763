// See source-format.h. Each reader follows its format's definition; codes stay as stored, so nothing is lost.

#include "source-format.h"

#include <cstring>

#include "float-bits.h"

namespace chairlift {

namespace {

float halfAt(const uint8_t* from) {
  uint16_t bits;
  memcpy(&bits, from, sizeof bits);
  return f16ToFloat(bits);
}

float floatAt(const uint8_t* from) {
  float value;
  memcpy(&value, from, sizeof value);
  return value;
}

uint32_t wordAt(const uint8_t* from) {
  uint32_t value;
  memcpy(&value, from, sizeof value);
  return value;
}

// Sixteen bytes hold inputs 0 … 15 in their low and 16 … 31 in their high halves.
void splitNibbles(const uint8_t* from, uint8_t* codes) {
  for (int i = 0; i < 16; i++) {
    codes[i] = from[i] & 15;
    codes[i + 16] = from[i] >> 4;
  }
}

void addFifthBits(uint32_t bits, uint8_t* codes) {
  for (int i = 0; i < 32; i++) codes[i] |= uint8_t(((bits >> i) & 1) << 4);
}

void readQ8_0(const uint8_t* row, int group, GroupCodes& to) {
  const uint8_t* block = row + group * 34;
  to.scales[0] = halfAt(block);
  for (int i = 0; i < 32; i++) to.codes[i] = uint8_t(block[2 + i] ^ 0x80);
}

void readQ4_0(const uint8_t* row, int group, GroupCodes& to) {
  const uint8_t* block = row + group * 18;
  to.scales[0] = halfAt(block);
  splitNibbles(block + 2, to.codes);
}

void readQ4_1(const uint8_t* row, int group, GroupCodes& to) {
  const uint8_t* block = row + group * 20;
  to.scales[0] = halfAt(block);
  to.minimums[0] = halfAt(block + 2);
  splitNibbles(block + 4, to.codes);
}

void readQ5_0(const uint8_t* row, int group, GroupCodes& to) {
  const uint8_t* block = row + group * 22;
  to.scales[0] = halfAt(block);
  splitNibbles(block + 6, to.codes);
  addFifthBits(wordAt(block + 2), to.codes);
}

void readQ5_1(const uint8_t* row, int group, GroupCodes& to) {
  const uint8_t* block = row + group * 24;
  to.scales[0] = halfAt(block);
  to.minimums[0] = halfAt(block + 2);
  splitNibbles(block + 8, to.codes);
  addFifthBits(wordAt(block + 4), to.codes);
}

// The k-quants: super-blocks of 256 weights in eight groups of 32.

void readQ2_K(const uint8_t* row, int group, GroupCodes& to) {
  const uint8_t* block = row + (group / 8) * 84;
  const int g = group % 8;
  const uint8_t* quants = block + 16 + (g / 4) * 32;
  const float scale = halfAt(block + 80), minimum = halfAt(block + 82);
  for (int i = 0; i < 32; i++) to.codes[i] = (quants[i] >> (2 * (g % 4))) & 3;
  for (int half = 0; half < 2; half++) {
    const uint8_t packed = block[2 * g + half];
    to.scales[half] = scale * float(packed & 15);
    to.minimums[half] = -minimum * float(packed >> 4);
  }
}

int scaleQ3_K(const uint8_t* scales, int index) {
  const int low = index < 8 ? scales[index] & 15 : scales[index - 8] >> 4;
  const int high = (scales[8 + index % 4] >> (2 * (index / 4))) & 3;
  return (low | high << 4) - 32;
}

void readQ3_K(const uint8_t* row, int group, GroupCodes& to) {
  const uint8_t* block = row + (group / 8) * 110;
  const int g = group % 8;
  const uint8_t* quants = block + 32 + (g / 4) * 32;
  for (int i = 0; i < 32; i++) {
    const int low = (quants[i] >> (2 * (g % 4))) & 3;
    const int high = (block[i] >> g) & 1;
    to.codes[i] = uint8_t(low | high << 2);
  }
  const float scale = halfAt(block + 108);
  for (int half = 0; half < 2; half++) to.scales[half] = scale * float(scaleQ3_K(block + 96, 2 * g + half));
}

/** Scale and minimum of group g, six bits each, of Q4_K and Q5_K. */
void scaleAndMinimum(const uint8_t* block, int g, GroupCodes& to) {
  const uint8_t* packed = block + 4;
  int scale, minimum;
  if (g < 4) {
    scale = packed[g] & 63;
    minimum = packed[g + 4] & 63;
  } else {
    scale = (packed[g + 4] & 15) | (packed[g - 4] >> 6) << 4;
    minimum = (packed[g + 4] >> 4) | (packed[g] >> 6) << 4;
  }
  to.scales[0] = halfAt(block) * float(scale);
  to.minimums[0] = -halfAt(block + 2) * float(minimum);
}

void readQ4_K(const uint8_t* row, int group, GroupCodes& to) {
  const uint8_t* block = row + (group / 8) * 144;
  const int g = group % 8;
  const uint8_t* quants = block + 16 + (g / 2) * 32;
  for (int i = 0; i < 32; i++) to.codes[i] = (quants[i] >> (4 * (g % 2))) & 15;
  scaleAndMinimum(block, g, to);
}

void readQ5_K(const uint8_t* row, int group, GroupCodes& to) {
  const uint8_t* block = row + (group / 8) * 176;
  const int g = group % 8;
  const uint8_t* high = block + 16;
  const uint8_t* quants = block + 48 + (g / 2) * 32;
  for (int i = 0; i < 32; i++) {
    to.codes[i] = uint8_t(((quants[i] >> (4 * (g % 2))) & 15) | ((high[i] >> g) & 1) << 4);
  }
  scaleAndMinimum(block, g, to);
}

void readQ6_K(const uint8_t* row, int group, GroupCodes& to) {
  const uint8_t* block = row + (group / 8) * 210;
  const int g = group % 8, half = g / 4, part = g % 4;
  const uint8_t* low = block + half * 64 + (part % 2) * 32;
  const uint8_t* high = block + 128 + half * 32;
  for (int i = 0; i < 32; i++) {
    to.codes[i] = uint8_t(((low[i] >> (4 * (part / 2))) & 15) | ((high[i] >> (2 * part)) & 3) << 4);
  }
  const float scale = halfAt(block + 208);
  for (int h = 0; h < 2; h++) to.scales[h] = scale * float(int8_t(block[192 + 2 * g + h]));
}

void readIQ4_XS(const uint8_t* row, int group, GroupCodes& to) {
  const uint8_t* block = row + (group / 8) * 136;
  const int g = group % 8;
  const int highBits = block[2] | block[3] << 8;
  const int low = (block[4 + g / 2] >> (4 * (g % 2))) & 15;
  const int high = (highBits >> (2 * g)) & 3;
  to.scales[0] = halfAt(block) * float((low | high << 4) - 32);
  splitNibbles(block + 8 + g * 16, to.codes);
}

/** MLX: { float32 scale, float32 bias, packed codes } per group of `size`. */
template <int bits, int size>
void readMlx(const uint8_t* row, int group, GroupCodes& to) {
  constexpr int blockBytes = 8 + size * bits / 8;
  const int perBlock = size / groupInputs;
  const uint8_t* block = row + (group / perBlock) * blockBytes;
  const uint8_t* packed = block + 8 + (group % perBlock) * groupInputs * bits / 8;
  to.scales[0] = floatAt(block);
  to.minimums[0] = floatAt(block + 4);
  for (int i = 0; i < groupInputs; i++) {
    to.codes[i] = bits == 8 ? packed[i] : (packed[i / 2] >> (4 * (i % 2))) & 15;
  }
}

const SourceFormat formats[] = {
    // name, block, bytes, encoding, zero, inputs per scale, scale in 16 bits, minimum, reader
    {"F32", 1, 4, Encoding::F32, 0, 0, false, false, nullptr},
    {"F16", 1, 2, Encoding::F16, 0, 0, false, false, nullptr},
    {"BF16", 1, 2, Encoding::BF16, 0, 0, false, false, nullptr},
    {"Q8_0", 32, 34, Encoding::Byte, 128, 32, true, false, readQ8_0},
    {"Q4_0", 32, 18, Encoding::Nibble, 8, 32, true, false, readQ4_0},
    {"Q4_1", 32, 20, Encoding::Nibble, 0, 32, true, true, readQ4_1},
    {"Q5_0", 32, 22, Encoding::Byte, 16, 32, true, false, readQ5_0},
    {"Q5_1", 32, 24, Encoding::Byte, 0, 32, true, true, readQ5_1},
    {"Q2_K", 256, 84, Encoding::Nibble, 0, 16, false, true, readQ2_K},
    {"Q3_K", 256, 110, Encoding::Nibble, 4, 16, false, false, readQ3_K},
    {"Q4_K", 256, 144, Encoding::Nibble, 0, 32, false, true, readQ4_K},
    {"Q5_K", 256, 176, Encoding::Byte, 0, 32, false, true, readQ5_K},
    {"Q6_K", 256, 210, Encoding::Byte, 32, 16, false, false, readQ6_K},
    {"IQ4_NL", 32, 18, Encoding::Codebook, 0, 32, true, false, readQ4_0},
    {"IQ4_XS", 256, 136, Encoding::Codebook, 0, 32, false, false, readIQ4_XS},
    {"MLX4_G32", 32, 24, Encoding::Nibble, 0, 32, false, true, readMlx<4, 32>},
    {"MLX4_G64", 64, 40, Encoding::Nibble, 0, 32, false, true, readMlx<4, 64>},
    {"MLX4_G128", 128, 72, Encoding::Nibble, 0, 32, false, true, readMlx<4, 128>},
    {"MLX8_G32", 32, 40, Encoding::Byte, 0, 32, false, true, readMlx<8, 32>},
    {"MLX8_G64", 64, 72, Encoding::Byte, 0, 32, false, true, readMlx<8, 64>},
    {"MLX8_G128", 128, 136, Encoding::Byte, 0, 32, false, true, readMlx<8, 128>},
};

}  // namespace

const SourceFormat* findFormat(const char* name) {
  for (const SourceFormat& format : formats) {
    if (strcmp(format.name, name) == 0) return &format;
  }
  return nullptr;
}

}  // namespace chairlift
