// Products with matrices of floats. For many rows, weights are widened once, some inputs of a few panels at a time, and stay in the
// first-level cache while rows pass by. Every sum has the same order, however many rows there are.
// Include after the ISA's vec-*.h and codes-*.h.
#pragma once

#include "kernels/products-frame.h"

namespace {

// Inputs whose widened weights are kept: those of `floatPanels` panels fit the first-level cache.
constexpr int widenedInputs = 64;
// Panels that few rows take at a time: they wait for memory.
constexpr int fewRowsPanels = floatPanels < 2 ? floatPanels : 2;
// Rows that widened weights serve: their inputs of a segment fit the second-level cache.
constexpr int floatBlockRows = 128;
// Of all inputs of rows that fit it, too.
constexpr size_t floatBlockBytes = 512 << 10;

/** Weights as they lie in panels. */
template <Encoding encoding>
struct PackedWeights {
  static constexpr size_t inputBytes = panelColumns * (encoding == Encoding::F32 ? sizeof(float) : sizeof(uint16_t));
  const uint8_t* panels;
  size_t panelBytes;

  CHAIRLIFT_INLINE Vec at(int panel, int input) const {
    const uint8_t* const own = panels + size_t(panel) * panelBytes;
    if constexpr (encoding == Encoding::F32) return Vec::load((const float*)own + input * panelColumns);
    else if constexpr (encoding == Encoding::F16) return Vec::loadF16((const uint16_t*)own + input * panelColumns);
    else return Vec::loadBf16((const uint16_t*)own + input * panelColumns);
  }
  CHAIRLIFT_INLINE PackedWeights from(int panel, int input) const {
    return {panels + size_t(panel) * panelBytes + size_t(input) * inputBytes, panelBytes};
  }
};

/** Floats of a few panels, input by input. */
template <int panels>
struct WidenedWeights {
  const float* values;

  CHAIRLIFT_INLINE Vec at(int panel, int input) const { return Vec::load(values + (input * panels + panel) * panelColumns); }
};

/** total[row * panels + panel] += x * weight for inputs 0 … count - 1; `x` is the first of the rows in its group. */
template <int rows, int panels, class Weights>
CHAIRLIFT_INLINE void addProducts(const Weights& weights, const float* x, size_t groupStride, int count,
                                  Vec (&total)[rows * panels]) {
  for (int first = 0; first < count; first += groupInputs, x += groupStride) {
    const int end = first + groupInputs < count ? first + groupInputs : count;
    for (int k = first; k < end; k++) {
      Vec own[panels];
      repeat<panels>([&](int panel) CHAIRLIFT_LAMBDA { own[panel] = weights.at(panel, k); });
      repeat<rows>([&](int r) CHAIRLIFT_LAMBDA {
        const Vec input = Vec::set(x[r * groupInputs + k - first]);
        repeat<panels>([&](int panel) CHAIRLIFT_LAMBDA {
          total[r * panels + panel] = fma(input, own[panel], total[r * panels + panel]);
        });
      });
    }
  }
}

/** `rows` rows of a tile, from `row` on, against `panels` panels, whose weights are widened as they are used. */
template <Encoding encoding, int rows, int panels>
inline void multiplyFewFloats(const Product& p, int row, int panel) {
  const float* x = p.valuesAt(row);
  const size_t groupStride = p.groupStride(row);
  PackedWeights<encoding> weights{p.panelAt(panel), p.matrix.panelBytes};
  SegmentSums<rows * panels> segments;
  for (int first = 0; first < p.matrix.inputs; first += segmentInputs) {
    const int left = p.matrix.inputs - first, count = left < segmentInputs ? left : segmentInputs;
    addProducts<rows, panels>(weights, x, groupStride, count, segments.total);
    segments.endSegment();
    x += groupStride * (segmentInputs / groupInputs);
    weights = weights.from(0, segmentInputs);
  }
  repeat<rows * panels>([&](int i) CHAIRLIFT_LAMBDA {
    p.store(segments.sum[i], row + i / panels, panel + i % panels);
  });
}

/** Weights of some inputs as floats, and totals of the segment under way, by row: what rows share. */
template <int panels>
struct FloatBlock {
  static constexpr int lanes = panels * panelColumns;
  alignas(64) float widened[widenedInputs * lanes];
  alignas(64) float totals[floatBlockRows * lanes];

  /** Adds `count` inputs from `first` on; `begins` a segment with them. */
  void addRows(const Product& p, int firstRow, int endRow, int first, int count, bool begins) {
    takeRows<floatRows>(firstRow, endRow, [&](auto constant, int row) CHAIRLIFT_LAMBDA {
      constexpr int rows = decltype(constant)::value;
      float* const kept = totals + (row - firstRow) * lanes;
      const size_t groupStride = p.groupStride(row);
      Vec total[rows * panels];
      repeat<rows * panels>([&](int i) CHAIRLIFT_LAMBDA {
        total[i] = begins ? Vec::zero() : Vec::load(kept + i * panelColumns);
      });
      const float* const x = p.valuesAt(row) + groupStride * size_t(first / groupInputs);
      addProducts<rows, panels>(WidenedWeights<panels>{widened}, x, groupStride, count, total);
      repeat<rows * panels>([&](int i) CHAIRLIFT_LAMBDA { total[i].store(kept + i * panelColumns); });
    });
  }

  /** Adds totals to the sums, which lie in the output: those of the first segment begin them, those of the last one take the bias. */
  void endSegment(const Product& p, int firstRow, int endRow, int panel, bool isFirst, bool isLast) const {
    for (int row = firstRow; row < endRow; row++) {
      const float* const own = totals + (row - firstRow) * lanes;
      for (int i = 0; i < panels; i++) {
        // Each row lies on a page of its own.
        if (row + 8 < endRow) __builtin_prefetch(p.out + size_t(row + 8) * p.outStride + (panel + i) * panelColumns, 1);
        const Vec total = Vec::load(own + i * panelColumns), sum = isFirst ? total : p.load(row, panel + i) + total;
        if (isLast) p.store(sum, row, panel + i);
        else p.storeSum(sum, row, panel + i);
      }
    }
  }
};

/** Inputs of some panels that are read in a row, before those of the panels behind them. */
struct InputRun {
  int first, end;
};

/** Adds the segment at `first` to the sums of rows from `firstRow` on. */
template <Encoding encoding, int panels>
inline void addFloatSegment(const Product& p, int firstRow, int endRow, int panel, int first, InputRun run) {
  FloatBlock<panels> block;
  const int inputs = p.matrix.inputs, end = first + (inputs - first < segmentInputs ? inputs - first : segmentInputs);
  const PackedWeights<encoding> weights{p.panelAt(panel), p.matrix.panelBytes};
  for (int k = first; k < end; k += widenedInputs) {
    const int count = end - k < widenedInputs ? end - k : widenedInputs;
    const int ahead = k + 2 * widenedInputs, beyond = ahead - run.end;
    const PackedWeights<encoding> next = beyond < 0 ? weights.from(0, ahead) : weights.from(panels, run.first + beyond);
    for (int i = 0; i < count; i++) {
      repeat<panels>([&](int own) CHAIRLIFT_LAMBDA {
        weights.at(own, k + i).store(block.widened + (i * panels + own) * panelColumns);
        __builtin_prefetch(next.panels + size_t(own) * next.panelBytes + size_t(i) * next.inputBytes);
      });
    }
    block.addRows(p, firstRow, endRow, k, count, k == first);
  }
  block.endSegment(p, firstRow, endRow, panel, first == 0, end == inputs);
}

/** Calls run(Constant<count>, panel) for all panels, at most `most` at a time, shared out evenly. */
template <int most, class Run>
CHAIRLIFT_INLINE void takeFloatPanels(const Product& p, const Run& run) {
  for (int panel = p.firstPanel; panel < p.endPanel;) {
    const int left = p.endPanel - panel, shares = (left + most - 1) / most;
    const int count = (left + shares - 1) / shares;
    withCount<most>(count, [&](auto panels) CHAIRLIFT_LAMBDA { run(panels, panel); });
    panel += count;
  }
}

template <Encoding encoding>
void multiplyFloats(const Product& p) {
  if (p.x.rows <= floatRows) {
    return takeFloatPanels<fewRowsPanels>(p, [&](auto constant, int panel) CHAIRLIFT_LAMBDA {
      constexpr int panels = decltype(constant)::value;
      withCount<floatRows>(p.x.rows, [&](auto rows) CHAIRLIFT_LAMBDA {
        multiplyFewFloats<encoding, decltype(rows)::value, panels>(p, 0, panel);
      });
    });
  }
  const int inputs = p.matrix.inputs;
  for (int row = 0; row < p.x.rows; row += floatBlockRows) {
    const int end = row + floatBlockRows < p.x.rows ? row + floatBlockRows : p.x.rows;
    // Whole panels, while all inputs stay cached; otherwise all panels for each segment.
    const int runInputs = size_t(end - row) * size_t(inputs) * sizeof(float) <= floatBlockBytes ? inputs : segmentInputs;
    for (int first = 0; first < inputs; first += runInputs) {
      const InputRun run{first, first + runInputs < inputs ? first + runInputs : inputs};
      takeFloatPanels<floatPanels>(p, [&](auto panels, int panel) CHAIRLIFT_LAMBDA {
        for (int segment = run.first; segment < run.end; segment += segmentInputs) {
          addFloatSegment<encoding, decltype(panels)::value>(p, row, end, panel, segment, run);
        }
      });
    }
  }
}

/** Of eight bits. A block is summed before its scale, even and odd inputs apart: shorter chains of additions. */
template <int rows>
inline void multiplyF8(const Product& p, int row, int panel) {
  const PackedMatrix& matrix = p.matrix;
  const float* x = p.valuesAt(row);
  const size_t groupStride = p.groupStride(row);
  const uint8_t* block = p.panelAt(panel);
  // A block is never cut; a larger one is a segment of its own.
  const int segment = matrix.blockInputs > segmentInputs ? matrix.blockInputs : segmentInputs;
  SegmentSums<rows> segments;
  for (int first = 0; first < matrix.inputs; block += matrix.blockBytes()) {
    const Vec scale = Vec::load((const float*)block);
    const uint8_t* codes = block + panelColumns * sizeof(float);
    Vec even[rows], odd[rows];
    repeat<rows>([&](int r) CHAIRLIFT_LAMBDA { even[r] = odd[r] = Vec::zero(); });
    for (int group = 0; group < matrix.blockInputs; group += groupInputs, x += groupStride) {
      for (int k = 0; k < groupInputs; k += 2, codes += 2 * panelColumns) {
        const Vec evenWeights = Vec::loadF8(codes), oddWeights = Vec::loadF8(codes + panelColumns);
        repeat<rows>([&](int r) CHAIRLIFT_LAMBDA {
          even[r] = fma(Vec::set(x[r * groupInputs + k]), evenWeights, even[r]);
          odd[r] = fma(Vec::set(x[r * groupInputs + k + 1]), oddWeights, odd[r]);
        });
      }
    }
    repeat<rows>([&](int r) CHAIRLIFT_LAMBDA {
      segments.total[r] = fma(even[r] + odd[r], scale, segments.total[r]);
    });
    first += matrix.blockInputs;
    if (first % segment == 0 || first == matrix.inputs) segments.endSegment();
  }
  repeat<rows>([&](int r) CHAIRLIFT_LAMBDA { p.store(segments.sum[r], row + r, panel); });
}

}  // namespace
