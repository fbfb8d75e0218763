// Linear maps, and how rows become their input: normalized, activated or gated, as floats or int8 codes.
#pragma once

#include <memory>
#include <string>
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
  // Of the weights in the model's file, those of all parts.
  std::string name;
  // What adapters add.
  std::vector<Addition> additions;

  /** Of one member of each part. */
  int panels() const;
  /** The same. */
  size_t weightBytes() const;
  bool readsCodes() const;
  bool readsValues() const;
};

/**
 * An adapter adds `scale * up(down(x))` from `offset` of the output row on. With factors (DoRA) the sum is multiplied by them, and
 * shifts restore the bias. Its matrices have a member for each member of the linear that it adds to.
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

struct Curve {
  Activation kind = Activation::Silu;
  float limit = 0, slope = 0;
};

/** Rows that a linear reads, and how they are transformed first. */
struct InputRows {
  // Activated or gated rows may be overwritten.
  float* x;
  size_t stride;
  int count;
  InputForm form = InputForm::Plain;
  // For InputForm::Normalized; a scale for each row of `x`.
  const Norm* norm = nullptr;
  const RowScale* scales = nullptr;
  Curve curve{};
  const float* up = nullptr;
  size_t upStride = 0;
  // The row of `x` of each input row; null: all in order.
  const int32_t* places = nullptr;
  // A factor for each input row, or null.
  const float* factors = nullptr;
  // The row of the step of each input row; null: `places`.
  const int32_t* owners = nullptr;

  int stepRow(int row) const { return owners ? owners[row] : places ? places[row] : row; }
  bool isCopied() const { return form == InputForm::Normalized || places || factors; }
};

struct RowRun {
  int member, firstRow, rows;
};

class Multiplier {
 public:
  Multiplier(const KernelTable& kernels, ThreadPool& pool) : kernels_(kernels), pool_(pool) {}

  /** Sets the adapter of each row of the step, -1 for none; empty where no row uses one. */
  void use(std::vector<int32_t> rowAdapters) { rowAdapters_ = std::move(rowAdapters); }

  bool usesAdapters() const { return !rowAdapters_.empty(); }
  int adapterOf(int row) const { return rowAdapters_[size_t(row)]; }

  /** Every row is in one run; output rows are in the order of input rows. */
  void apply(const Linear& linear, const InputRows& input, const std::vector<RowRun>& runs, float* out,
             size_t outStride);
  void apply(const Linear& linear, const InputRows& input, int rows, float* out, size_t outStride) {
    if (rows > 0) apply(linear, input, {{0, 0, rows}}, out, outStride);
  }

  /** Whether `applyGated` takes both. */
  bool canGate(const Linear& projection, const Linear& down) const;
  /**
   * Multiplies by `projection`, whose parts are a gate and what it gates, and the gated rows by `down`, as two calls of `apply`
   * would; but each thread gates what it has just multiplied. `gated` are the rows that the first product writes, as `down` reads
   * them.
   */
  void applyGated(const Linear& projection, const InputRows& input, const Linear& down, const InputRows& gated,
                  const std::vector<RowRun>& runs, float* out, size_t outStride);

 private:
  /** At most 16 rows of one run, whose codes are stored together. */
  struct Tile {
    int firstRow, rows;
  };

  /** The input of a product by tile, as floats, which may be the caller's, and as int8 codes. */
  struct TiledInput {
    const float* floats = nullptr;
    size_t groups = 0;
    bool hasCodes = false, hasFloats = false;
    RowBuffer floatTiles;
    PageBuffer codes, sides;
  };

  void cutTiles(const std::vector<RowRun>& runs);
  void makeInput(const Linear& reader, const InputRows& source, bool wantsValues);
  /** Takes room for what `makeGroups` writes. */
  void reserveInput(TiledInput& to, const Linear& reader, const InputRows& source, bool isPlain) const;
  /** Of all rows of a tile; `values` is null or takes the rows as floats, too. */
  void makeGroups(const TiledInput& to, const InputRows& source, size_t tile, int firstGroup, int endGroup, float* values) const;
  InputTask taskOf(const InputRows& source, const Tile& tile) const;
  /** What the kernels read of the current input, for each run. */
  void viewInput(const std::vector<RowRun>& runs);
  void multiply(const Linear& linear, const std::vector<RowRun>& runs, float* out, size_t outStride);
  void multiplyPart(const Linear::Part& part, const RowRun& run, const Activations& input, int begin, int end, float* out,
                    size_t outStride) const;
  void multiplyPanels(const Linear& linear, const RowRun& run, const Activations& input, int begin, int end, float* out,
                      size_t outStride) const;
  /** Reads the values of the current input. */
  void add(const Addition& addition, const InputRows& input, const std::vector<RowRun>& runs, float* out,
           size_t outStride);

  const KernelTable& kernels_;
  ThreadPool& pool_;
  std::vector<Tile> tiles_;
  // The current input, and one that is made meanwhile; for adapters the current one row by row, too.
  TiledInput input_, nextInput_;
  const float* values_ = nullptr;
  size_t valueStride_ = 0;
  RowBuffer copies_;
  std::vector<Activations> inputs_;
  // Of each run, and one past the last.
  std::vector<size_t> firstTiles_;
  std::vector<int32_t> rowAdapters_;
  // For adapters, while the current input is still needed.
  std::unique_ptr<Multiplier> inner_;
  RowBuffer reduced_, added_;
  std::vector<int32_t> addedRows_, addedMembers_;
  std::vector<RowRun> addedRuns_;
};

}  // namespace chairlift
