// The tensor types of weight files and how a group of 32 weights is read out of a row of each.
#pragma once

#include "kernels.h"

namespace chairlift {

/** 32 weights: `scale * (code - zero) + minimum`; one scale, or one for each half. */
struct GroupCodes {
  uint8_t codes[groupInputs];
  float scales[2];
  float minimums[2];
};

struct SourceFormat {
  const char* name;
  int blockSize;
  int blockBytes;
  Encoding encoding;
  int zero;
  int scaleInputs;
  bool scaleF16;
  bool hasMinimum;
  /** Null for float types. */
  void (*readGroup)(const uint8_t* row, int group, GroupCodes& to);

  size_t rowBytes(int inputs) const { return size_t(inputs / blockSize) * size_t(blockBytes); }
};

/** Null where the name is unknown. */
const SourceFormat* findFormat(const char* name);

}  // namespace chairlift
