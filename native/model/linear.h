// Linear maps, and how rows become their input: normalized, activated or gated, as floats or int8 codes, on the way.
#pragma once

#include <memory>
#include <vector>

#include "kernels/kernels.h"
#include "model/matrix.h"
#include "model/norm.h"
#include "model/row-buffer.h"
#include "system/page-buffer.h"
#include "system/thread-pool.h"

namespace chairlift {

struct Addition;

/** One or several matrices over one input; each writes its own columns of the output row. */
struct Linear {
  struct Part {
    std::shared_ptr<Matrix> matrix;
    // Empty, or padded to whole panels, member after member.
    std::vector<float> bias;
    size_t offset;
  };
  std::vector<Part> parts;
  // What adapters add.
  std::vector<Addition> additions;

  /** Of one member of each. */
  int panels() const;
  /** Whether any part reads int8 activations, or float ones. */
  bool readsCodes() const;
  bool readsValues() const;
};

/**
 * What an adapter adds from `offset` of the output row on: `scale * up(down(x))`. With factors (DoRA) the sum is multiplied
 * by them, and shifts bring back what that takes of the bias. Its matrices have a member for each one of the linear's that it
 * adds to.
 */
struct Addition {
  int adapter;
  float scale;
  int rank, outputs;
  Linear down, up;
  size_t offset;
  int firstMember, members;
  // Both empty, or one for each output, member after member.
  std::vector<float> factors, shifts;
};

/** An activation with its numbers. */
struct Curve {
  Activation kind = Activation::Silu;
  float limit = 0, slope = 0;
};

/** Rows that a linear is to read, and what becomes of them on the way. */
struct InputRows {
  // Rows that are activated or gated may be written over.
  float* x;
  size_t stride;
  // Values of a row.
  int count;
  InputForm form = InputForm::Plain;
  // Normalized: by what, and the scale of each row of `x`.
  const Norm* norm = nullptr;
  const RowScale* scales = nullptr;
  // Activated and gated.
  Curve curve{};
  const float* up = nullptr;
  size_t upStride = 0;
  // Which row of `x` each is; null: all in order.
  const int32_t* places = nullptr;
  // Where not null: a factor for each.
  const float* factors = nullptr;
  // Which row of the step each is, where that is not its place.
  const int32_t* owners = nullptr;

  int stepRow(int row) const { return owners ? owners[row] : places ? places[row] : row; }
  bool isCopied() const { return form == InputForm::Normalized || places || factors; }
};

/** Rows that one member of a linear's matrices takes. */
struct RowRun {
  int member, firstRow, rows;
};

class Multiplier {
 public:
  Multiplier(const KernelTable& kernels, ThreadPool& pool) : kernels_(kernels), pool_(pool) {}

  /** The adapter of each row of a step, from now on; -1 stands for none, and nothing for none at all. */
  void use(std::vector<int32_t> rowAdapters) { rowAdapters_ = std::move(rowAdapters); }

  bool usesAdapters() const { return !rowAdapters_.empty(); }
  int adapterOf(int row) const { return rowAdapters_[size_t(row)]; }

  /** Output rows lie as the input's do: those of a run from its first row on. Every row is in one run. */
  void apply(const Linear& linear, const InputRows& input, const std::vector<RowRun>& runs, float* out,
             size_t outStride);
  /** The same for linears of one member. */
  void apply(const Linear& linear, const InputRows& input, int rows, float* out, size_t outStride) {
    if (rows > 0) apply(linear, input, {{0, 0, rows}}, out, outStride);
  }

 private:
  /** At most 16 rows of one run, whose codes lie together. */
  struct Tile {
    int firstRow, rows;
  };

  void cutTiles(const std::vector<RowRun>& runs);
  void makeInput(const Linear& reader, const InputRows& source, bool wantsValues);
  InputTask taskOf(const InputRows& source, const Tile& tile) const;
  void multiply(const Linear& linear, const std::vector<RowRun>& runs, float* out, size_t outStride);
  void multiplyPanels(const Linear& linear, const RowRun& run, const Activations& input, int begin, int end, float* out,
                      size_t outStride) const;
  /** From the values of the input at hand, to the rows that use it. */
  void add(const Addition& addition, const InputRows& input, const std::vector<RowRun>& runs, float* out,
           size_t outStride);

  const KernelTable& kernels_;
  ThreadPool& pool_;
  std::vector<Tile> tiles_;
  // Of the input at hand: rows as floats, which may lie elsewhere, and their int8 form, tile by tile.
  const float* values_ = nullptr;
  size_t valueStride_ = 0;
  size_t groups_ = 0;
  // Of each run.
  std::vector<Activations> inputs_;
  RowBuffer copies_;
  PageBuffer codes_, sides_;
  std::vector<int32_t> rowAdapters_;
  // For what adapters add, while the input at hand is still needed.
  std::unique_ptr<Multiplier> inner_;
  RowBuffer reduced_, added_;
  std::vector<int32_t> addedRows_, addedMembers_;
  std::vector<RowRun> addedRuns_;
};

}  // namespace chairlift
