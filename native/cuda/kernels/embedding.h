// Rows of tables, and matrices on their way from the processor's panels to the order of fragments. Include after codes.h.
#pragma once

namespace {

CHAIRLIFT_DEVICE float f8ToFloat(uint32_t bits) { return halfToFloat(uint16_t((bits & 0x80) << 8 | (bits & 0x7f) << 7)); }

/** The scale of some inputs of one output. */
struct WeightScale {
  float scale, minimum;
};

CHAIRLIFT_DEVICE WeightScale weightScale(const MatrixView& matrix, int output, int k) {
  const int64_t panel = output / panelOutputs;
  const int column = output % panelOutputs, scaleGroup = k / matrix.scaleInputs;
  const uint8_t* const supers = matrix.supers + panel * matrix.superStride;
  const uint8_t* const minimums = matrix.minimums + panel * matrix.minimumStride;
  return {matrix.unit * readScale(matrix, matrix.scales + panel * matrix.scaleStride, supers, scaleGroup, column, false),
          matrix.hasMinimum ? readScale(matrix, minimums, supers, scaleGroup, column, true) : 0.0f};
}

/**
 * Weights of one output and `count` neighbouring inputs of the first member, from a multiple of `count` on: one, two or four. Beyond
 * the last input they are that one's.
 */
template <int count>
CHAIRLIFT_DEVICE void readWeights(const MatrixView& matrix, int output, int k, float (&to)[count]) {
  const int column = output % panelOutputs;
  const uint8_t* const codes = matrix.codes + int64_t(output / panelOutputs) * matrix.codeStride;
  const int last = matrix.inputs - 1 - k;
  const auto place = [&](int i) { return (k + (i < last ? i : last)) * panelOutputs + column; };
  switch (matrix.encoding) {
    case codeF32:
#pragma unroll
      for (int i = 0; i < count; i++) to[i] = ((const float*)codes)[place(i)];
      return;
    case codeF16:
#pragma unroll
      for (int i = 0; i < count; i++) to[i] = halfToFloat(((const uint16_t*)codes)[place(i)]);
      return;
    case codeBf16:
#pragma unroll
      for (int i = 0; i < count; i++) to[i] = brainToFloat(((const uint16_t*)codes)[place(i)]);
      return;
    case codeF8: {
      const uint8_t* const block = codes + int64_t(k / matrix.blockInputs) * panelOutputs * (4 + matrix.blockInputs);
      const uint8_t* const own = block + panelOutputs * 4 + k % matrix.blockInputs * panelOutputs + column;
#pragma unroll
      for (int i = 0; i < count; i++) to[i] = ((const float*)block)[column] * f8ToFloat(own[i * panelOutputs]);
      return;
    }
    default: break;
  }
  const WeightScale own = weightScale(matrix, output, k);
#pragma unroll
  for (int i = 0; i < count; i++) {
    to[i] = own.scale * float(readCode(matrix, codes, k / inputsOfGroup, column, k % inputsOfGroup + i)) + own.minimum;
  }
}

CHAIRLIFT_DEVICE float readWeight(const MatrixView& matrix, int output, int k) {
  float weight[1];
  readWeights(matrix, output, k, weight);
  return weight[0];
}

/** A thread has four values. Blocks: x are rows, y are pieces of them. */
CHAIRLIFT_DEVICE void embed(const EmbedArgs& args) {
  startNext();
  waitForPrevious();
  const int first = (blockY() * threadCount() + threadIndex()) * 4;
  if (first >= args.size) return;
  const int token = args.tokens[blockX()], output = token < args.table.outputs ? token : 0;
  float weights[4];
  readWeights(args.table, output, first, weights);
  float* const to = args.to + int64_t(blockX()) * args.stride + first;
#pragma unroll
  for (int i = 0; i < 4; i++) {
    if (first + i < args.size) to[i] = args.factor == 1.0f ? weights[i] : weights[i] * args.factor;
  }
}

/** The processor's layout of a chunk: see PackedMatrix. */
struct ChunkLayout {
  int codeBytes, scaleBytes, groups;
  bool hasMinimum, hasSupers;

  CHAIRLIFT_METHOD ChunkLayout(const MatrixView& matrix, int itsGroups)
      : codeBytes(isBytes(matrix.encoding) ? 512 : 256),
        scaleBytes(bytesOfScale(matrix.scaleType) * (panelOutputs * inputsOfGroup) / matrix.scaleInputs),
        groups(itsGroups),
        hasMinimum(matrix.hasMinimum),
        hasSupers(matrix.scaleType == scaleSuper) {}

  CHAIRLIFT_METHOD int scalesAt() const { return groups * codeBytes; }
  CHAIRLIFT_METHOD int minimumsAt() const { return scalesAt() + groups * scaleBytes; }
  CHAIRLIFT_METHOD int supersAt() const { return minimumsAt() + (hasMinimum ? groups * scaleBytes : 0); }
  CHAIRLIFT_METHOD int bytes() const {
    const int supers = hasSupers ? (hasMinimum ? 2 : 1) * panelOutputs * 2 : 0;
    return (supersAt() + supers + 63) / 64 * 64;
  }
};

CHAIRLIFT_DEVICE void repackCodes(const MatrixView& to, const uint8_t* from, uint8_t* codes, int group) {
  const int lane = threadIndex() % 32, g = lane / 4, t = lane % 4;
  const uint32_t* const words = (const uint32_t*)from;
  if (isBytes(to.encoding)) {
    uint32_t* const own = (uint32_t*)codes + (group * 32 + lane) * 4;
    for (int i = 0; i < 4; i++) own[i] = words[(t + i / 2 * 4) * 16 + g + i % 2 * 8];
    return;
  }
  uint32_t* const own = (uint32_t*)codes + (group / 2 * 32 + lane) * 4 + group % 2 * 2;
  for (int i = 0; i < 2; i++) {
    uint32_t word = words[t * 16 + g + i * 8];
    if (to.encoding == codeNibble) word ^= 0x88888888u;
    if (to.encoding == codeCodebook) {
      uint32_t low = 0, high = 0;
      for (int byte = 0; byte < 4; byte++) {
        low |= (word >> (byte * 8) & 15) << (byte * 4);
        high |= (word >> (byte * 8 + 4) & 15) << (byte * 4);
      }
      word = low | high << 16;
    }
    own[i] = word;
  }
}

CHAIRLIFT_DEVICE void copyScale(uint8_t* to, const uint8_t* from, int bytes, int place, int source) {
  for (int i = 0; i < bytes; i++) to[place * bytes + i] = from[source * bytes + i];
}

/** A block is a panel, a warp takes chunks of it. The target is zero before. */
CHAIRLIFT_DEVICE void repack(const RepackArgs& args) {
  waitForPrevious();
  const MatrixView& to = args.to;
  const int64_t panel = blockX();
  const int groups = to.inputs / inputsOfGroup, chunks = (groups + 7) / 8, lane = threadIndex() % 32;
  const int warp = threadIndex() / 32, warps = threadCount() / 32;
  const uint8_t* const from = args.panels + panel * args.panelBytes;
  uint8_t* const codes = const_cast<uint8_t*>(to.codes) + panel * to.codeStride;
  uint8_t* const scales = const_cast<uint8_t*>(to.scales) + panel * to.scaleStride;
  uint8_t* const minimums = const_cast<uint8_t*>(to.minimums) + panel * to.minimumStride;
  uint16_t* const supers = (uint16_t*)(const_cast<uint8_t*>(to.supers) + panel * to.superStride);
  const ChunkLayout whole(to, 8);
  const int each = bytesOfScale(to.scaleType), perChunk = 8 * inputsOfGroup / to.scaleInputs;
  for (int c = warp; c < chunks; c += warps) {
    const int own = groups - c * 8 < 8 ? groups - c * 8 : 8;
    const ChunkLayout layout(to, own);
    const uint8_t* const chunk = from + int64_t(c) * whole.bytes();
    for (int i = 0; i < own; i++) repackCodes(to, chunk + i * layout.codeBytes, codes, c * 8 + i);
    const int count = own * inputsOfGroup / to.scaleInputs;
    for (int i = lane; i < count * panelOutputs; i += 32) {
      const int place = scalePlace(c * perChunk + i / panelOutputs, i % panelOutputs);
      copyScale(scales, chunk + layout.scalesAt(), each, place, i);
      if (to.hasMinimum) copyScale(minimums, chunk + layout.minimumsAt(), each, place, i);
    }
    if (to.scaleType != scaleSuper || lane >= panelOutputs) continue;
    const uint16_t* const halves = (const uint16_t*)(chunk + layout.supersAt());
    const int step = to.hasMinimum ? 4 : 2, place = (c * 8 + lane % 8) * step + lane / 8;
    supers[place] = halves[lane];
    if (to.hasMinimum) supers[place + 2] = halves[panelOutputs + lane];
  }
}

}  // namespace
