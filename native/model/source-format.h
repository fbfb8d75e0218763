// The tensor types of weight files, and how chunks of 256 weights are read from a row of each.
#pragma once

#include "kernels/kernels.h"

namespace chairlift {

/** 32 weights: `scale * value + minimum`; one scale, which several groups may share, or one for each half. */
struct GroupCodes {
  // As a panel keeps them: one byte per input, or inputs i and i + 16 in the halves of byte i.
  uint8_t codes[groupInputs];
  // Bits, as the format's `scaleType` says.
  uint32_t scales[2];
  uint32_t minimums[2];
};

/** The supers are for ScaleType::Super alone. */
struct ChunkCodes {
  GroupCodes groups[chunkGroups];
  uint16_t superScale;
  uint16_t superMinimum;
};

struct SourceFormat {
  const char* name;
  int blockSize;
  int blockBytes;
  Encoding encoding;
  int scaleInputs;
  ScaleType scaleType;
  bool hasMinimum;
  /** Of Encoding::Codebook; null for others. */
  const Codebook* codebook;
  /** Reads a chunk of `count` groups. Null for float types. */
  void (*read)(const uint8_t* row, int chunk, int count, ChunkCodes& to);

  size_t rowBytes(int inputs) const { return size_t(inputs / blockSize) * size_t(blockBytes); }
};

/** Null where the name is unknown. */
const SourceFormat* findFormat(const char* name);

}  // namespace chairlift
