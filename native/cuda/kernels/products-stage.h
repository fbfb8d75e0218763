// Weights and rows on their way through shared memory: some groups of a panel or of a tile at a time.
// Include after products.h.
#pragma once

namespace {

/** Where a panel's parts start. */
struct PanelAddress {
  const uint8_t* codes;
  const uint8_t* scales;
  const uint8_t* minimums;
  const uint8_t* supers;
};

CHAIRLIFT_DEVICE PanelAddress addressOf(const MatrixView& matrix, int64_t panel) {
  return {matrix.codes + panel * matrix.codeStride, matrix.scales + panel * matrix.scaleStride,
          matrix.minimums + panel * matrix.minimumStride, matrix.supers + panel * matrix.superStride};
}

CHAIRLIFT_DEVICE const MatrixView& firstMatrix(const ProductArgs& args) { return args.parts[0].matrix; }

CHAIRLIFT_DEVICE int panelsOf(const ProductArgs& args) {
  int panels = 0;
  for (int part = 0; part < args.partCount; part++) panels += args.parts[part].matrix.panels;
  return panels;
}

/**
 * Runs a pass for each member that a block's tiles are of: `pass` takes the block's first tile, the number of all tiles, the first
 * tile of the member in the block, the one after its last, and the member.
 */
template <class Pass>
CHAIRLIFT_DEVICE void takeMembers(const ProductArgs& args, int blockTile, int blockTiles, const Pass& pass) {
  const int count = args.tileCount ? *args.tileCount : (args.rows + rowsOfTile - 1) / rowsOfTile;
  const int after = blockTile + blockTiles, end = after < count ? after : count;
  // Passes are large: the loop has one call for rows with and without members.
  for (int tile = blockTile; tile < end;) {
    const int member = args.tiles ? args.tiles[tile].member : 0, first = tile;
    if (!args.tiles) tile = end;
    while (tile < end && args.tiles[tile].member == member) tile++;
    pass(blockTile, count, first, tile, member);
  }
}

/**
 * Copies that the threads of a block share out once and repeat for every stage: `bytes` of each of `items` items, which lie
 * `itemStride` apart in shared memory.
 */
template <int items, int bytes, int itemStride, int threads>
class StageCopies {
 public:
  /** `sourceOf` gives where an item starts. */
  template <class Source>
  CHAIRLIFT_METHOD void share(const Source& sourceOf) {
#pragma unroll
    for (int j = 0; j < passes; j++) {
      const int own = threadIndex() + j * threads, piece = own < all ? own : all - 1;
      from_[j] = sourceOf(piece / pieces) + piece % pieces * 16;
    }
  }

  /** Copies from `offset` on. */
  CHAIRLIFT_METHOD void start(uint8_t* to, int offset) const {
#pragma unroll
    for (int j = 0; j < passes; j++) {
      if ((j + 1) * threads <= all || threadIndex() + j * threads < all) copyToShared(to + placeOf(j), from_[j] + offset);
    }
  }

 private:
  static constexpr int pieces = bytes / 16, all = items * pieces, passes = (all + threads - 1) / threads;

  static CHAIRLIFT_METHOD int placeOf(int j) {
    if constexpr (threads % pieces == 0) {
      return threadIndex() / pieces * itemStride + threadIndex() % pieces * 16 + j * (threads / pieces) * itemStride;
    } else {
      const int own = threadIndex() + j * threads;
      return own / pieces * itemStride + own % pieces * 16;
    }
  }

  const uint8_t* from_[passes];
};

/** `groups` groups of a panel in shared memory: codes, scales, minimums, supers, each as in MatrixView. */
template <class F, int itsGroups>
struct PanelStage {
  static constexpr int groups = itsGroups;
  static constexpr int codeBytes = groups * (F::isByte ? 512 : 256);
  static constexpr int scaleGroups = groups * F::parts / F::sharing;
  // Quads of scale groups are kept whole, where only a part belongs to these groups, too; where four groups share a scale, more
  // than belong to them.
  static constexpr int quads = scaleGroups < 4 ? 1 : scaleGroups / 4;
  static constexpr int quadBytes = 64 * F::bytesOfScale;
  static constexpr int scaleBytes = quads * quadBytes;
  static constexpr int chunks = groups < 8 ? 1 : groups / 8;
  static constexpr int superBytes = F::scaleType == scaleSuper ? chunks * F::superBytes : 0;
  static constexpr int scalesAt = codeBytes;
  static constexpr int minimumsAt = scalesAt + scaleBytes;
  static constexpr int supersAt = minimumsAt + (F::hasMinimum ? scaleBytes : 0);
  static constexpr int bytes = supersAt + superBytes;

  /**
   * What the threads of a block copy for `items` panels. Beyond a panel's end they copy what follows: what the inputs there are
   * multiplied by does not count, but it must be finite, and so it is (see DeviceMatrix).
   */
  template <int items, int threads>
  struct Copies {
    StageCopies<items, codeBytes, bytes, threads> codes;
    StageCopies<items, scaleBytes, bytes, threads> scales, minimums;
    StageCopies<items, superBytes ? superBytes : 16, bytes, threads> supers;

    template <class Source>
    CHAIRLIFT_METHOD void share(const Source& addressOfPanel) {
      codes.share([&](int i) { return addressOfPanel(i).codes; });
      scales.share([&](int i) { return addressOfPanel(i).scales; });
      if constexpr (F::hasMinimum) minimums.share([&](int i) { return addressOfPanel(i).minimums; });
      if constexpr (superBytes > 0) supers.share([&](int i) { return addressOfPanel(i).supers; });
    }
    CHAIRLIFT_METHOD void start(uint8_t* to, const MatrixView& shape, int first) const {
      codes.start(to, first * (codeBytes / groups));
      scales.start(to + scalesAt, firstQuad(first, shape) * quadBytes);
      if constexpr (F::hasMinimum) minimums.start(to + minimumsAt, firstQuad(first, shape) * quadBytes);
      if constexpr (superBytes > 0) supers.start(to + supersAt, first / 8 * F::superBytes);
    }
  };

  /** Which of the scale groups that are kept is a part's of the stage's group `k`. */
  static CHAIRLIFT_METHOD int scaleGroup(int first, int k, int part, const MatrixView& shape) {
    if constexpr (F::isShared) return scaleOf(first, shape) % 4 + scaleOf(k, shape);
    return k * F::parts + part;
  }

 private:
  static CHAIRLIFT_METHOD int scaleOf(int group, const MatrixView& shape) {
    return F::isShared ? group >> (shape.scaleInputs == 64 ? 1 : 2) : group * F::parts;
  }
  static CHAIRLIFT_METHOD int firstQuad(int first, const MatrixView& shape) { return scaleOf(first, shape) / 4; }
};

/** What one scale group's products are multiplied by: of outputs g and g + 8. */
struct PairScales {
  float first, second;
};

CHAIRLIFT_DEVICE PairScales timesHalves(PairScales own, uint32_t halves) {
  return {own.first * halfToFloat(uint16_t(halves & 0xffffu)), own.second * halfToFloat(uint16_t(halves >> 16))};
}

/** Reads the pair of a scale group; `supers` are those of its chunk. */
template <class F>
CHAIRLIFT_DEVICE PairScales readPair(const uint8_t* quads, int scaleGroup, int g, uint32_t supers) {
  const int at = (scaleGroup / 4 * 8 + g) * 4 + scaleGroup % 4;
  if constexpr (F::scaleType == scaleF16) {
    const uint32_t both = ((const uint32_t*)quads)[at];
    return {halfToFloat(uint16_t(both & 0xffffu)), halfToFloat(uint16_t(both >> 16))};
  } else if constexpr (F::scaleType == scaleBf16) {
    const uint32_t both = ((const uint32_t*)quads)[at];
    return {asFloat(both << 16), asFloat(both & 0xffff0000u)};
  } else if constexpr (F::scaleType == scaleF32) {
    const Words2 both = ((const Words2*)quads)[at];
    return {asFloat(both.x), asFloat(both.y)};
  } else {
    const uint32_t both = ((const uint16_t*)quads)[at];
    if constexpr (F::scaleType == scalePower) return {powerOf(both & 255u), powerOf(both >> 8)};
    return timesHalves({signedByteToFloat(both & 255u), signedByteToFloat(both >> 8)}, supers);
  }
}

/** Scales and minimums of one scale group of a staged panel, ready for `scaleTile`. */
template <class F>
struct GroupScales {
  PairScales scale, lifted, minimum;

  template <class Stage>
  CHAIRLIFT_METHOD void read(const uint8_t* stage, int scaleGroup, int chunk, int g) {
    uint32_t supers = 0, superMinimums = 0;
    if constexpr (F::scaleType == scaleSuper && F::hasMinimum) {
      const Words2 both = ((const Words2*)(stage + Stage::supersAt))[chunk * 8 + g];
      supers = both.x;
      superMinimums = both.y;
    } else if constexpr (F::scaleType == scaleSuper) {
      supers = ((const uint32_t*)(stage + Stage::supersAt))[chunk * 8 + g];
    }
    scale = readPair<F>(stage + Stage::scalesAt, scaleGroup, g, supers);
    if constexpr (F::hasMinimum) minimum = readPair<F>(stage + Stage::minimumsAt, scaleGroup, g, superMinimums);
    lift();
  }

  CHAIRLIFT_METHOD void lift() { lifted = {-liftValue * scale.first, -liftValue * scale.second}; }
};

/** What the sums of a segment are multiplied by: codes are so much larger than what they stand for, always by a power of two. */
template <class F>
CHAIRLIFT_DEVICE float unitOf(const MatrixView& matrix) {
  return F::encoding == codeNibble ? 1.0f / 16 : F::encoding == codeCodebook ? matrix.unit : 1.0f;
}

/** Adds the products of one scale group with a tile, of outputs g, g, g + 8, g + 8 and rows 2t, 2t + 1, 2t, 2t + 1. */
template <class F>
CHAIRLIFT_DEVICE void scaleTile(const int (&d)[4], const GroupScales<F>& scales, float x0, float x1, float (&total)[4]) {
  const float s0 = scales.scale.first, s1 = scales.scale.second, l0 = scales.lifted.first, l1 = scales.lifted.second;
  if constexpr (F::isExact) {
    total[0] = fusedMultiplyAdd(float(d[0]) * s0, x0, total[0]);
    total[1] = fusedMultiplyAdd(float(d[1]) * s0, x1, total[1]);
    total[2] = fusedMultiplyAdd(float(d[2]) * s1, x0, total[2]);
    total[3] = fusedMultiplyAdd(float(d[3]) * s1, x1, total[3]);
  } else {
    total[0] = fusedMultiplyAdd(fusedMultiplyAdd(asFloat(uint32_t(d[0])), s0, l0), x0, total[0]);
    total[1] = fusedMultiplyAdd(fusedMultiplyAdd(asFloat(uint32_t(d[1])), s0, l0), x1, total[1]);
    total[2] = fusedMultiplyAdd(fusedMultiplyAdd(asFloat(uint32_t(d[2])), s1, l1), x0, total[2]);
    total[3] = fusedMultiplyAdd(fusedMultiplyAdd(asFloat(uint32_t(d[3])), s1, l1), x1, total[3]);
  }
}

template <class F>
CHAIRLIFT_DEVICE void addMinimums(const GroupScales<F>& scales, float y0, float y1, float (&total)[4]) {
  total[0] = fusedMultiplyAdd(scales.minimum.first, y0, total[0]);
  total[1] = fusedMultiplyAdd(scales.minimum.first, y1, total[1]);
  total[2] = fusedMultiplyAdd(scales.minimum.second, y0, total[2]);
  total[3] = fusedMultiplyAdd(scales.minimum.second, y1, total[3]);
}

/** The products of one scale group: of a whole group, or of its first or second half. */
template <class F>
CHAIRLIFT_DEVICE void multiplyPart(int (&d)[4], const uint32_t (&a)[4], Words2 b, int part) {
  const int start = F::isExact ? 0 : liftBits, c[4] = {start, start, start, start};
  if constexpr (F::parts == 1) {
    multiplyTile<F::isUnsigned>(d, a, b, c);
  } else {
    multiplyHalf<F::isUnsigned>(d, part ? a[2] : a[0], part ? a[3] : a[1], part ? b.y : b.x, c);
  }
}

/** The operands of two groups, an even one and the next, of a staged panel. */
template <class F>
CHAIRLIFT_DEVICE void readPairOfGroups(const uint8_t* codes, const uint32_t (&book)[4], int pair, uint32_t (&even)[4],
                                       uint32_t (&odd)[4]) {
  const Words4* const words = (const Words4*)codes + threadIndex() % 32;
  if constexpr (F::isByte) {
    const Words4 first = words[pair * 64], second = words[pair * 64 + 32];
    even[0] = first.x, even[1] = first.y, even[2] = first.z, even[3] = first.w;
    odd[0] = second.x, odd[1] = second.y, odd[2] = second.z, odd[3] = second.w;
  } else {
    const Words4 both = words[pair * 32];
    unpackNibbles<F>(both.x, both.y, book, even);
    unpackNibbles<F>(both.z, both.w, book, odd);
  }
}

}  // namespace
