// What the layers of a step share on the device: the step's tables, the residual stream, KV and scratch rows. Layers launch kernels;
// nothing here waits for them. A step is launched for a padded number of rows, so that steps of one shape replay one graph: what
// differs between such steps is in the tables.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "cuda/attention-pieces.h"
#include "cuda/device.h"
#include "cuda/growing.h"
#include "cuda/kernels/args.h"
#include "cuda/kernels/layer-args.h"
#include "cuda/matrices.h"
#include "model/batch-rows.h"
#include "model/kv-blocks.h"
#include "model/linear.h"
#include "model/norm.h"

namespace chairlift {
namespace cuda {

// Of make_input: warps of a block, and groups of a row that a warp makes at once.
constexpr int inputWarps = 4;
constexpr int inputGroups = 4;

/** Tables of a step by row; rows that pad it have token 0, position 0 and block -1. */
struct StepTables {
  const int32_t* tokens;
  const int32_t* positions;
  // The block of a row's own token.
  const int32_t* blocks;
  // Block tables of all sequences, one after another.
  const int32_t* tables;
  // Rows whose logits and whose final states are wanted.
  const int32_t* logitRows;
  const int32_t* stateRows;
};

/** Turns of rows that are not those of their positions: see TurnRowsArgs. */
struct RowTurns {
  // Three for each row; null: all rows turn by their positions.
  const int32_t* positions = nullptr;
  // By rope.
  std::vector<const float*> turns;
};

/** Recurrent states, in slots, and the runs of a step over them: see StateView. */
struct DeviceStates {
  float* slots = nullptr;
  size_t slotStride = 0;
  // Of each recurrent layer in a slot.
  std::vector<size_t> starts;
  // With those that pad the step, which have no runs.
  int sequences = 0;
  const int32_t* runStarts = nullptr;
  const RunOfRows* runs = nullptr;
  const int32_t* firstRows = nullptr;
  const int32_t* fromSlots = nullptr;

  StateView view(int state) const {
    return {runStarts, runs, firstRows, fromSlots, slots + starts[size_t(state)], int64_t(slotStride)};
  }
};

/** Rows that a linear reads, on the device: see InputRows. */
struct Input {
  const float* x;
  size_t stride;
  int count;
  InputForm form = InputForm::Plain;
  const Norm* norm = nullptr;
  const Scale* scales = nullptr;
  Curve curve{};
  const float* up = nullptr;
  size_t upStride = 0;
  const int32_t* places = nullptr;
  const float* factors = nullptr;
  const int32_t* owners = nullptr;
};

/** Tiles of rows that members of a linear take, made on the device; without them all rows are of the first member. */
struct RowTiles {
  const Tile* tiles = nullptr;
  const int32_t* count = nullptr;
  // How many there can be.
  int most = 0;
  // Whether all have rows of the input's first tile.
  bool shareInput = false;
};

/** Rows that use an adapter, in tiles; `places` has the input row of each. */
struct AdaptedRows {
  RowTiles tiles;
  const int32_t* places;
};

/** The adapters of a step. */
struct StepAdapters {
  // Of each row, or -1.
  const int32_t* rows = nullptr;
  // Those that a row uses, in order.
  std::vector<int32_t> used;
  // By adapter, once they have been gathered: rows of the step as they are.
  std::map<int, AdaptedRows> gathered;

  bool uses(int adapter) const { return std::binary_search(used.begin(), used.end(), adapter); }
  template <class Additions>
  bool useAny(const Additions& additions) const {
    return std::any_of(additions.begin(), additions.end(), [&](const auto& one) { return uses(one.adapter); });
  }
};

/** Makes inputs and launches products. */
class Multiplier {
 public:
  explicit Multiplier(Work& work) : work_(work) {}

  void apply(const Linear& linear, const Input& input, int rows, float* out, size_t outStride, const RowTiles& tiles = {});

  /**
   * Room for codes of the stream's rows with this norm, which the kernel that finishes the stream makes: inputs that are just that
   * need no launch of their own, until `dropNextInput`.
   */
  CodesTarget nextInput(const Norm& norm);
  /** The stream changes. */
  void dropNextInput() { next_.reset(); }

  /** The two halves of `apply`. The input stays until the next is made. */
  InputView makeInput(const Linear& linear, const Input& input, int rows, const RowTiles& tiles, bool wantsValues);
  void multiply(const Linear& linear, const InputView& input, int rows, float* out, size_t outStride, const RowTiles& tiles);

  /** For probes: a family of kernels that is used wherever a matrix has it. */
  void prefer(const std::string& family) { preferred_ = family; }

 private:
  /** Reads the values of the current input. */
  void add(const Addition& addition, const Input& input, const InputView& view, int rows, const RowTiles& tiles, float* out,
           size_t outStride);

  /** A kernel for some matrices, and the grid that it takes for all their panels. */
  struct Choice {
    std::string kernel;
    Grid grid;
    FewPlan few{};
  };
  struct Extent {
    // Of all parts.
    int panels;
    // The most of a tile.
    int rows;
    int tiles, tilesOfMember;
    bool hasMembers;
    // Whether the device knows how many tiles there are.
    bool countsTiles;
  };
  Choice choose(const MatrixView& matrix, const Extent& extent) const;
  Choice chooseFloats(const MatrixView& matrix, const Extent& extent) const;
  std::optional<Choice> chooseMany(const MatrixView& matrix, const Extent& extent) const;
  Choice chooseFew(const MatrixView& matrix, const Extent& extent) const;
  FewPlan planFew(const MatrixView& matrix, int tiles, int panels, int segments) const;

  /** Memory of codes, their scales and sums. */
  struct Codes {
    Growing codes, scales, sums;

    CodesTarget room(Work& work, size_t tiles, size_t groups);
  };
  struct NextInput {
    const float* x;
    const Norm* norm;
    int rows;
    CodesTarget codes;
  };
  bool isNext(const Input& input, int rows, const RowTiles& tiles) const;

  Work& work_;
  std::string preferred_;
  Codes codes_, nextCodes_;
  Growing values_;
  std::optional<NextInput> next_;
  // For adapters, while the current input is still needed.
  std::unique_ptr<Multiplier> inner_;
};

struct Stream {
  float* x = nullptr;
  size_t stride = 0;
  int size = 0;
  // By NormKind; null where no norm of the kind reads the stream.
  Scale* scales[2] = {};

  Input rows() const { return {x, stride, size}; }
  Input normalized(const Norm& norm) const {
    Input all = rows();
    all.form = InputForm::Normalized;
    all.norm = &norm;
    all.scales = scales[size_t(norm.kind)];
    return all;
  }
};

class Work {
 public:
  Work(Device& itsDevice, DeviceWeights& itsWeights, const KvLayout& itsLayout, float epsilon)
      : device(itsDevice), weights(itsWeights), kvLayout(itsLayout), normEpsilon(epsilon), multiplier(*this) {}

  /** Scratch rows of this name, for all rows of the step, or for `count`. */
  float* scratch(const char* name, size_t stride) { return scratch(name, size_t(rows), stride); }
  float* scratch(const char* name, size_t count, size_t stride) {
    return scratch_[name].room(*this, count * stride * sizeof(float)).as<float>();
  }
  /** Scratch values of another type. */
  template <class T>
  T* scratchOf(const char* name, size_t count) {
    return scratch_[name].room(*this, count * sizeof(T)).template as<T>();
  }
  NormArgs norm(const Norm& norm) {
    return {int32_t(norm.kind), normEpsilon, weights.vector(norm.weight), weights.vector(norm.bias)};
  }
  template <class Maybe>
  NormArgs maybeNorm(const Maybe& own) {
    return own ? norm(*own) : NormArgs{};
  }
  /** Measures the stream's rows for the norms that read it. */
  void measureStream();
  /** A table of `width` values by position, as far as the positions of this step and of those that follow reach. */
  const float* byPosition(const std::string& name, size_t width, const std::function<void(int, float*)>& fill);
  /** Extends all tables by position to `end`: steps that are replayed do not ask for them. */
  void extendPositions(int end);
  /** Fills in what attentions share, and launches. */
  void launchAttention(AttentionArgs args, int cache, RowsOf rows = RowsOf::All);

  Device& device;
  DeviceWeights& weights;
  const KvLayout& kvLayout;
  const float normEpsilon;
  // With those that pad the step.
  int rows = 0;
  StepTables tables{};
  StepAdapters adapters;
  Stream stream;
  DeviceStates states;
  // Of the current part, where its sum may be left to what finishes the part, and is.
  bool leavesMixture = false;
  Mixture mixture{};
  // Per-layer embeddings of the step.
  const float* perLayerInputs = nullptr;
  size_t perLayerInputStride = 0;
  uint8_t* kv = nullptr;
  size_t kvStride = 0;
  // One past the last position of the step.
  int positionsEnd = 0;
  // Changes with every address that recorded launches may hold.
  uint64_t generation = 0;
  // By rope: by position, cosines then sines of all pairs.
  std::vector<const float*> rotations;
  std::vector<int> rotationPairs;
  RowTurns turned;
  Multiplier multiplier;
  AttentionPieces attention;

 private:
  struct PositionTable {
    size_t width = 0;
    std::function<void(int, float*)> fill;
    Growing memory;
    int filled = 0;
  };

  void extend(PositionTable& table);

  std::map<std::string, Growing> scratch_;
  std::map<std::string, PositionTable> positionTables_;
};

}  // namespace cuda
}  // namespace chairlift
