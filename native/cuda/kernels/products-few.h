// Products of few rows: a block keeps the rows in shared memory, some segments of their inputs at a time, and takes its panels one
// after the other; each warp has a segment of a panel. Weights go from memory to registers, those of the next segment while this
// one is multiplied. Include after products-stage.h.
#pragma once

namespace {

/** Where a lane reads a segment of a panel; without one, nothing is loaded. */
template <class F>
struct SegmentSource {
  const Words4* codes = nullptr;
  const uint8_t* scales = nullptr;
  const uint8_t* minimums = nullptr;
  const uint8_t* supers = nullptr;
  // Loads of codes; the last segment may have fewer than others.
  int loads = 0;

  CHAIRLIFT_METHOD SegmentSource() {}
  CHAIRLIFT_METHOD SegmentSource(const MatrixView& matrix, int64_t panel, int segment) {
    const int lane = threadIndex() % 32, g = lane / 4, left = matrix.inputs / inputsOfGroup - segment * groupsOfSegment;
    const int sharing = matrix.scaleInputs / inputsOfGroup;
    const int quad = F::isShared && sharing == 4 ? segment : segment * F::quads;
    const PanelAddress own = addressOf(matrix, panel);
    codes = (const Words4*)own.codes + int64_t(segment) * F::loads * 32 + lane;
    scales = own.scales + int64_t(quad * 8 + g) * F::bytesOfScale * 8;
    if constexpr (F::hasMinimum) minimums = own.minimums + int64_t(quad * 8 + g) * F::bytesOfScale * 8;
    if constexpr (F::scaleType == scaleSuper) supers = own.supers + int64_t(segment * 2 * 8 + g) * (F::superBytes / 8);
    loads = left >= groupsOfSegment ? F::loads : (left * F::loads + groupsOfSegment - 1) / groupsOfSegment;
  }
};

/** Scales of four scale groups, of outputs g and g + 8, as they are in memory. */
template <class F>
struct QuadOfScales {
  static constexpr int words = F::bytesOfScale * 2;
  uint32_t raw[words];

  CHAIRLIFT_METHOD void load(const uint8_t* from, bool isWanted) {
    if constexpr (words == 2) {
      loadOnceIf(isWanted, (const Words2*)from, (Words2&)raw);
    } else {
#pragma unroll
      for (int i = 0; i < words; i += 4) loadOnceIf(isWanted, (const Words4*)from + i / 4, (Words4&)raw[i]);
    }
  }

  CHAIRLIFT_METHOD PairScales read(int i) const {
    if constexpr (F::scaleType == scaleF16) {
      return {halfToFloat(uint16_t(raw[i] & 0xffffu)), halfToFloat(uint16_t(raw[i] >> 16))};
    } else if constexpr (F::scaleType == scaleBf16) {
      return {asFloat(raw[i] << 16), asFloat(raw[i] & 0xffff0000u)};
    } else if constexpr (F::scaleType == scaleF32) {
      return {asFloat(raw[i * 2]), asFloat(raw[i * 2 + 1])};
    } else {
      const uint32_t both = raw[i / 2] >> (i % 2 * 16);
      if constexpr (F::scaleType == scalePower) return {powerOf(both & 255u), powerOf(both >> 8 & 255u)};
      return {signedByteToFloat(both & 255u), signedByteToFloat(both >> 8 & 255u)};
    }
  }
};

/** The weights of a segment in registers. */
template <class F>
class SegmentWeights {
 public:
  /** Loads all of a segment. */
  CHAIRLIFT_METHOD void load(const SegmentSource<F>& from, int sharing) {
#pragma unroll
    for (int i = 0; i < groupsOfSegment; i++) replace(from, i, sharing);
  }

  /** Loads what takes the place of group `i`, and of what the groups up to `i` shared. */
  CHAIRLIFT_METHOD void replace(const SegmentSource<F>& next, int i, int sharing) {
    constexpr int groupsOfLoad = groupsOfSegment / F::loads, groupsOfQuad = 4 * F::sharing / F::parts;
    if ((i + 1) % groupsOfLoad == 0) {
      const int own = i / groupsOfLoad;
      loadOnceIf(own < next.loads, next.codes + own * 32, codes_[own]);
    }
    const bool isWanted = next.loads > 0;
    if ((i + 1) % groupsOfQuad == 0) {
      const int own = i / groupsOfQuad;
      // Where four groups share a scale, one quad has those of the whole segment.
      const bool isWide = F::isShared && sharing == 4, isLast = i + 1 == groupsOfSegment;
      replaceQuad(next, own, isWanted && !isWide);
      if (F::isShared && isLast) replaceQuad(next, 0, isWanted && isWide);
    }
    if constexpr (F::scaleType == scaleSuper) {
      if (i % 8 == 7) {
        const uint8_t* const from = next.supers + i / 8 * F::superBytes;
        if constexpr (F::hasMinimum) {
          loadOnceIf(isWanted, (const Words2*)from, supers_[i / 8]);
        } else {
          loadOnceIf(isWanted, (const uint32_t*)from, supers_[i / 8].x);
        }
      }
    }
  }

  /** The operand of group `i`. */
  CHAIRLIFT_METHOD void unpack(int i, const uint32_t (&book)[4], uint32_t (&a)[4]) const {
    if constexpr (F::isByte) {
      a[0] = codes_[i].x, a[1] = codes_[i].y, a[2] = codes_[i].z, a[3] = codes_[i].w;
    } else {
      const Words4 own = codes_[i / 2];
      unpackNibbles<F>(i % 2 ? own.z : own.x, i % 2 ? own.w : own.y, book, a);
    }
  }

  CHAIRLIFT_METHOD GroupScales<F> scalesOf(int i, int part, int sharing) const {
    GroupScales<F> own{};
    own.scale = read(scales_, i, part, sharing);
    if constexpr (F::hasMinimum) own.minimum = read(minimums_, i, part, sharing);
    if constexpr (F::scaleType == scaleSuper) {
      own.scale = timesHalves(own.scale, supers_[i / 8].x);
      if constexpr (F::hasMinimum) own.minimum = timesHalves(own.minimum, supers_[i / 8].y);
    }
    own.lift();
    return own;
  }

 private:
  using Quad = QuadOfScales<F>;

  CHAIRLIFT_METHOD void replaceQuad(const SegmentSource<F>& next, int quad, bool isWanted) {
    const int at = quad * 8 * F::bytesOfScale * 8;
    scales_[quad].load(next.scales + at, isWanted);
    if constexpr (F::hasMinimum) minimums_[quad].load(next.minimums + at, isWanted);
  }
  /** Registers have no index: of what is known only at run time, both are read. */
  static CHAIRLIFT_METHOD PairScales read(const Quad (&quads)[F::quads], int i, int part, int sharing) {
    const int at = i * F::parts / F::sharing + part;
    const PairScales own = quads[at / 4].read(at % 4);
    if constexpr (F::isShared) {
      const PairScales wide = quads[0].read(i / 4);
      return {sharing == 4 ? wide.first : own.first, sharing == 4 ? wide.second : own.second};
    }
    return own;
  }

  Words4 codes_[F::loads] = {};
  Quad scales_[F::quads] = {}, minimums_[F::hasMinimum ? F::quads : 1] = {};
  Words2 supers_[F::scaleType == scaleSuper ? 2 : 1] = {};
};

/** A block of few rows: `tiles` tiles with all its panels. */
template <class F, int tiles>
class FewRows {
 public:
  CHAIRLIFT_METHOD FewRows(const ProductArgs& args)
      : args_(args),
        plan_(args.few),
        matrix_(firstMatrix(args)),
        sharing_(matrix_.scaleInputs / inputsOfGroup),
        warps_(threadCount() / 32),
        copiesOwn_(plan_.segments == warps_),
        ownPanel_(copiesOwn_ ? 0 : threadIndex() / 32 / plan_.segments),
        ownSegment_(threadIndex() / 32 - ownPanel_ * plan_.segments),
        segments_((matrix_.inputs + inputsOfSegment - 1) / inputsOfSegment),
        allPanels_(panelsOf(args)),
        ownBlock_(blockX()),
        blocks_(blocksX()),
        firstTile_(blockY() * tiles),
        isSingle_(args.rows == 1 && !args.tiles) {}

  CHAIRLIFT_METHOD void run() {
    if (args_.tiles) waitForPrevious();
    if (args_.tileCount && !takeTile(*args_.tileCount)) return;
    own_ = args_.tiles ? args_.tiles[firstTile_] : Tile{0, firstTile_ * rowsOfTile, args_.rows - firstTile_ * rowsOfTile};
    if (F::encoding == codeCodebook) {
      for (int i = 0; i < 4; i++) book_[i] = matrix_.codebook[i];
    }
    Round round{};
    SegmentWeights<F> weights;
    // Weights are on their way while the kernels before end.
    weights.load(sourceOf(round), sharing_);
    waitForPrevious();
    copyRows(0, 0);
    int buffer = 0, half = 0;
    while (!isOver(round)) {
      Round next = round;
      advance(next);
      if (round.panel == 0) startChunk(round, buffer);
      const SegmentSource<F> source = sourceOf(next);
      if (hasSegment(round)) multiply(buffer, half, weights, source);
      else weights.load(source, sharing_);
      syncBlock();
      join(round, half);
      half ^= 1;
      if (next.panel == 0) buffer ^= 1;
      round = next;
    }
  }

 private:
  /** Whether this block has a tile. Where they share the blocks out, as many as there are take part, not as many as there can be. */
  CHAIRLIFT_METHOD bool takeTile(int count) {
    if (plan_.sharesBlocks && count > 0) {
      blocks_ = blocksX() / count;
      firstTile_ = blockX() / blocks_;
      ownBlock_ = blockX() % blocks_;
    }
    return firstTile_ < count;
  }

  static constexpr int rows = rowsOfTile * tiles;
  // Lanes that write side by side have different banks.
  static constexpr int rowStride = panelOutputs + 4;
  static constexpr int partialFloats = rows * rowStride;
  static constexpr int sumsOfGroup = F::hasMinimum ? F::parts * rowsOfTile : 0;

  /**
   * What the warps do between two barriers: a chunk of segments, from `segment` on, of some panels, from `panel` on of a batch,
   * which starts at `first`.
   */
  struct Round {
    int first, segment, panel;
  };

  CHAIRLIFT_METHOD int segmentsOf(const Round& round) const {
    const int left = segments_ - round.segment;
    return left < plan_.segments ? left : plan_.segments;
  }
  /** Whether the batch has a panel. */
  CHAIRLIFT_METHOD bool has(const Round& round, int panel) const {
    return panel < plan_.panels && ownBlock_ + (round.first + panel) * blocks_ < allPanels_;
  }
  CHAIRLIFT_METHOD bool isOver(const Round& round) const { return !has(round, 0); }
  CHAIRLIFT_METHOD bool isLastChunk(const Round& round) const { return round.segment + plan_.segments >= segments_; }
  CHAIRLIFT_METHOD void advance(Round& round) const {
    round.panel += plan_.panelsAtOnce;
    if (!has(round, round.panel)) nextChunk(round);
  }
  CHAIRLIFT_METHOD void nextChunk(Round& round) const {
    round.panel = 0;
    round.segment += plan_.segments;
    if (round.segment < segments_) return;
    round.segment = 0;
    round.first += plan_.panels;
  }

  /** Whether this warp has one. */
  CHAIRLIFT_METHOD bool hasSegment(const Round& round) const {
    return ownPanel_ < plan_.panelsAtOnce && has(round, round.panel + ownPanel_) && ownSegment_ < segmentsOf(round);
  }
  CHAIRLIFT_METHOD ProductPlace placeOfPanel(const Round& round, int panel) const {
    return placeOf(args_, ownBlock_ + (round.first + round.panel + panel) * blocks_);
  }
  CHAIRLIFT_METHOD SegmentSource<F> sourceOf(const Round& round) const {
    if (!hasSegment(round)) return {};
    const ProductPlace place = placeOfPanel(round, ownPanel_);
    const MatrixView& matrix = args_.parts[place.part].matrix;
    return {matrix, int64_t(own_.member) * matrix.panels + place.panel, round.segment + ownSegment_};
  }

  // Shared memory: rows of one or two chunks, two rounds of partial sums, sums of the batch.
  CHAIRLIFT_METHOD int groups() const { return plan_.segments * groupsOfSegment; }
  CHAIRLIFT_METHOD int bufferBytes() const { return groups() * tiles * (256 + 32 + sumsOfGroup * 4); }
  CHAIRLIFT_METHOD uint8_t* codesAt(int buffer) const { return sharedMemory() + buffer * bufferBytes(); }
  CHAIRLIFT_METHOD uint8_t* scalesAt(int buffer) const { return codesAt(buffer) + groups() * tiles * 256; }
  CHAIRLIFT_METHOD uint8_t* sumsAt(int buffer) const { return scalesAt(buffer) + groups() * tiles * 32; }
  CHAIRLIFT_METHOD float* partialAt(int half, int warp) const {
    return (float*)(sharedMemory() + plan_.buffers * bufferBytes()) + (half * warps_ + warp) * partialFloats;
  }
  CHAIRLIFT_METHOD float* keptAt(int panel) const { return partialAt(2, 0) + panel * partialFloats; }

  /** The rows of the chunk have arrived, and those of the next are on their way. */
  CHAIRLIFT_METHOD void startChunk(const Round& round, int buffer) const {
    waitForCopies<0>();
    if (copiesOwn_) syncWarp();
    else syncBlock();
    Round next = round;
    nextChunk(next);
    if (!isOver(next)) copyRows(next.segment, buffer ^ 1);
  }

  CHAIRLIFT_METHOD void copyRows(int segment, int buffer) const {
    const int room = groups(), left = args_.input.groups - segment * groupsOfSegment, all = left < room ? left : room;
    const int skipped = copiesOwn_ ? ownSegment_ * groupsOfSegment : 0;
    const int thread = copiesOwn_ ? threadIndex() % 32 : threadIndex(), step = copiesOwn_ ? 32 : threadCount();
    const int count = !copiesOwn_ ? all : skipped < all ? groupsOfSegment : 0;
#pragma unroll
    for (int tile = 0; tile < tiles; tile++) {
      const int64_t ownTile = args_.sharesInput ? 0 : firstTile_ + tile;
      const int64_t from = ownTile * args_.input.groups + segment * groupsOfSegment + skipped;
      const int to = tile * room + skipped;
      const uint8_t* const codes = (const uint8_t*)args_.input.codes + from * 256;
      const uint8_t* const scales = (const uint8_t*)args_.input.scales + from * 32;
      if (tiles == 1 && isSingle_) {
        // Other rows of the tile are left as they are: nobody reads their products.
        for (int i = thread; i < count * 2; i += step) {
          const int at = i / 2 * 256 + i % 2 * 16;
          copyToShared(codesAt(buffer) + to * 256 + at, codes + at);
        }
      } else {
#pragma unroll 8
        for (int i = thread; i < count * 16; i += step) copyToShared(codesAt(buffer) + to * 256 + i * 16, codes + i * 16);
      }
      for (int i = thread; i < count * 2; i += step) copyToShared(scalesAt(buffer) + to * 32 + i * 16, scales + i * 16);
      if constexpr (F::hasMinimum) {
        // Those of whole groups, or of their halves.
        constexpr int pieces = sumsOfGroup / 4, whole = F::parts == 2 ? rowsOfTile : 0;
        for (int i = thread; i < count * pieces; i += step) {
          const float* const sums = args_.input.sums + (from + i / pieces) * 3 * rowsOfTile + whole + i % pieces * 4;
          copyToShared(sumsAt(buffer) + (to * pieces + i) * 16, sums);
        }
      }
    }
    commitCopies();
  }

  CHAIRLIFT_METHOD void multiply(int buffer, int half, SegmentWeights<F>& weights, const SegmentSource<F>& next) {
    const int lane = threadIndex() % 32, g = lane / 4, t = lane % 4, room = groups(), first = ownSegment_ * groupsOfSegment;
    const Words2* const codes = (const Words2*)codesAt(buffer) + first * 32 + lane;
    const Floats2* const scales = (const Floats2*)scalesAt(buffer) + first * 4 + t;
    const Floats2* const sums = (const Floats2*)sumsAt(buffer) + first * (sumsOfGroup / 2) + t;
    float total[tiles][4] = {};
#pragma unroll
    for (int i = 0; i < groupsOfSegment; i++) {
      uint32_t a[4];
      weights.unpack(i, book_, a);
#pragma unroll
      for (int part = 0; part < F::parts; part++) {
        const GroupScales<F> own = weights.scalesOf(i, part, sharing_);
        int d[tiles][4];
#pragma unroll
        for (int r = 0; r < tiles; r++) multiplyPart<F>(d[r], a, codes[(r * room + i) * 32], part);
#pragma unroll
        for (int r = 0; r < tiles; r++) {
          const Floats2 x = scales[(r * room + i) * 4];
          scaleTile<F>(d[r], own, x.x, x.y, total[r]);
          if constexpr (F::hasMinimum) {
            const Floats2 y = sums[(r * room + i) * (sumsOfGroup / 2) + part * 4];
            addMinimums<F>(own, y.x, y.y, total[r]);
          }
        }
      }
      weights.replace(next, i, sharing_);
    }
    float* const to = partialAt(half, threadIndex() / 32);
    const float unit = unitOf<F>(matrix_);
#pragma unroll
    for (int r = 0; r < tiles; r++) {
#pragma unroll
      for (int i = 0; i < 4; i++) to[(r * rowsOfTile + 2 * t + i % 2) * rowStride + g + i / 2 * 8] = total[r][i] * unit;
    }
  }

  static CHAIRLIFT_METHOD Floats4 sumOf(Floats4 a, Floats4 b) { return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w}; }

  /** Adds the partial sums of a round's panels in order, to those of the chunks before, and writes them after the last chunk. */
  CHAIRLIFT_METHOD void join(const Round& round, int half) const {
    constexpr int each = rows * panelOutputs / 4;
    const int segments = segmentsOf(round);
    for (int i = threadIndex(); i < plan_.panelsAtOnce * each; i += threadCount()) {
      const int column = i % 4 * 4, row = i / 4 % rows, panel = i / each, at = row * rowStride + column;
      if (!has(round, round.panel + panel)) break;
      const float* const partial = partialAt(half, panel * plan_.segments) + at;
      Floats4& kept = *(Floats4*)(keptAt(round.panel + panel) + at);
      Floats4 sum = *(const Floats4*)partial;
      if (round.segment > 0) sum = sumOf(kept, sum);
#pragma unroll 8
      for (int segment = 1; segment < segments; segment++) sum = sumOf(sum, *(const Floats4*)(partial + segment * partialFloats));
      if (isLastChunk(round)) write(placeOfPanel(round, panel), column, row, sum);
      else kept = sum;
    }
  }

  /** Four outputs of a row. */
  CHAIRLIFT_METHOD void write(const ProductPlace& place, int column, int row, Floats4 sum) const {
    const bool isOwn = args_.sharesInput ? (own_.inputRows >> row & 1) != 0 : row < own_.rows;
    if (!isOwn) return;
    const int rowOfTile = args_.sharesInput ? countBits(own_.inputRows & ((1u << row) - 1)) : row;
    const ProductArgs::Part& part = args_.parts[place.part];
    const int first = place.panel * panelOutputs + column, outputs = part.matrix.outputs;
    if (part.bias) {
      const float* const bias = part.bias + int64_t(own_.member) * part.matrix.panels * panelOutputs + first;
      sum = sumOf(sum, {bias[0], bias[1], bias[2], bias[3]});
    }
    float* const to = args_.out + int64_t(own_.firstRow + rowOfTile) * args_.outStride + part.offset + first;
    if (first + 4 <= outputs && ((uintptr_t)to & 15) == 0) {
      *(Floats4*)to = sum;
      return;
    }
    const float values[4] = {sum.x, sum.y, sum.z, sum.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
      if (first + i < outputs) to[i] = values[i];
    }
  }

  const ProductArgs& args_;
  const FewPlan& plan_;
  const MatrixView& matrix_;
  const int sharing_, warps_;
  // Where each warp has a segment of its own, it copies that alone, and waits for nobody.
  const bool copiesOwn_;
  const int ownPanel_, ownSegment_, segments_, allPanels_;
  // Of those that share the panels of a tile.
  int ownBlock_, blocks_;
  int firstTile_;
  const bool isSingle_;
  Tile own_{};
  uint32_t book_[4] = {};
};

/** Blocks: x share all parts' panels out, y are `tiles` tiles, unless x share those out, too. */
template <class F, int tiles>
CHAIRLIFT_DEVICE void multiplyFew(const ProductArgs& args) {
  startNext();
  FewRows<F, tiles>(args).run();
}

}  // namespace
