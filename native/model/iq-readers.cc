// See iq-readers.h; src/weights/quants/iq-quants.ts describes the blocks.

#include "model/iq-readers.h"

#include "model/iq-grids.h"
#include "model/source-codes.h"

namespace chairlift {

namespace {

// Eight codes, a byte each.
using Eight = uint64_t;

/** 8 in each byte whose bit is set. */
Eight minusCodes(uint8_t signs) {
  const Eight alone = everyByte(signs) & 0x8040201008040201u;
  return ((alone + 0x00406070787c7e7fu) >> 4) & everyByte(8);
}

/** Seven signs and the eighth, which makes their number even. */
uint8_t evenSigns(uint32_t bits) {
  bits &= 127;
  return uint8_t(bits | uint32_t(__builtin_parity(bits)) << 7);
}

void storeEights(const Eight (&eights)[4], GroupCodes& to) {
  storeNibbles({Bytes{eights[0], eights[1]}, Bytes{eights[2], eights[3]}}, to);
}

uint32_t oddScale(int scale) { return uint32_t(2 * scale + 1); }

void setHalves(uint8_t packed, GroupCodes& to) {
  to.scales[0] = oddScale(packed & 15);
  to.scales[1] = oddScale(packed >> 4);
}

Eight twoEntries(uint32_t first, uint32_t second) { return first | Eight(second) << 32; }

}  // namespace

void readIQ1_S(const uint8_t* block, ChunkCodes& to) {
  to.superScale = halfAt(block);
  for (int g = 0; g < 8; g++) {
    const uint16_t packed = halfAt(block + 34 + 2 * g);
    const Eight down = packed >> 15 ? everyByte(8) : 0;
    to.groups[g].scales[0] = oddScale(packed >> 12 & 7);
    Eight eights[4];
    for (int i = 0; i < 4; i++) eights[i] = iq1Grid[block[2 + 4 * g + i] | (packed >> (3 * i) & 7) << 8] | down;
    storeEights(eights, to.groups[g]);
  }
}

void readIQ1_M(const uint8_t* block, ChunkCodes& to) {
  to.superScale = 0;
  for (int i = 0; i < 4; i++) to.superScale |= uint16_t((block[49 + 2 * i] >> 4) << (4 * i));
  for (int g = 0; g < 8; g++) {
    const int packed = halfAt(block + 48 + g / 2 * 2) >> (6 * (g % 2));
    for (int half = 0; half < 2; half++) to.groups[g].scales[half] = oddScale(packed >> (3 * half) & 7);
    Eight eights[4];
    for (int i = 0; i < 4; i++) {
      const int upper = block[32 + 2 * g + i / 2] >> (4 * (i % 2));
      eights[i] = iq1Grid[block[4 * g + i] | (upper & 7) << 8] | (upper & 8 ? everyByte(8) : 0);
    }
    storeEights(eights, to.groups[g]);
  }
}

void readIQ2_XXS(const uint8_t* block, ChunkCodes& to) {
  to.superScale = halfAt(block);
  for (int g = 0; g < 8; g++) {
    const uint8_t* entries = block + 2 + 8 * g;
    const uint32_t signs = wordAt(entries + 4);
    to.groups[g].scales[0] = oddScale(int(signs >> 28));
    Eight eights[4];
    for (int i = 0; i < 4; i++) eights[i] = iq2xxsGrid[entries[i]] | minusCodes(evenSigns(signs >> (7 * i)));
    storeEights(eights, to.groups[g]);
  }
}

void readIQ2_XS(const uint8_t* block, ChunkCodes& to) {
  to.superScale = halfAt(block);
  for (int g = 0; g < 8; g++) {
    setHalves(block[66 + g], to.groups[g]);
    Eight eights[4];
    for (int i = 0; i < 4; i++) {
      const uint16_t packed = halfAt(block + 2 + 8 * g + 2 * i);
      eights[i] = iq2xsGrid[packed & 511] | minusCodes(evenSigns(packed >> 9));
    }
    storeEights(eights, to.groups[g]);
  }
}

void readIQ2_S(const uint8_t* block, ChunkCodes& to) {
  to.superScale = halfAt(block);
  for (int g = 0; g < 8; g++) {
    setHalves(block[74 + g], to.groups[g]);
    Eight eights[4];
    for (int i = 0; i < 4; i++) {
      const int entry = block[2 + 4 * g + i] | (block[66 + g] >> (2 * i) & 3) << 8;
      eights[i] = iq2sGrid[entry] | minusCodes(block[34 + 4 * g + i]);
    }
    storeEights(eights, to.groups[g]);
  }
}

void readIQ3_XXS(const uint8_t* block, ChunkCodes& to) {
  to.superScale = halfAt(block);
  for (int g = 0; g < 8; g++) {
    const uint8_t* entries = block + 2 + 8 * g;
    const uint32_t signs = wordAt(block + 66 + 4 * g);
    to.groups[g].scales[0] = oddScale(int(signs >> 28));
    Eight eights[4];
    for (int i = 0; i < 4; i++) {
      eights[i] = twoEntries(iq3xxsGrid[entries[2 * i]], iq3xxsGrid[entries[2 * i + 1]]) |
                  minusCodes(evenSigns(signs >> (7 * i)));
    }
    storeEights(eights, to.groups[g]);
  }
}

void readIQ3_S(const uint8_t* block, ChunkCodes& to) {
  to.superScale = halfAt(block);
  for (int g = 0; g < 8; g++) {
    to.groups[g].scales[0] = oddScale(block[106 + g / 2] >> (4 * (g % 2)) & 15);
    const auto entry = [&](int i) { return iq3sGrid[block[2 + 8 * g + i] | (block[66 + g] >> i & 1) << 8]; };
    Eight eights[4];
    for (int i = 0; i < 4; i++) {
      eights[i] = twoEntries(entry(2 * i), entry(2 * i + 1)) | minusCodes(block[74 + 4 * g + i]);
    }
    storeEights(eights, to.groups[g]);
  }
}

}  // namespace chairlift
