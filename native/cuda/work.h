// What the layers of a step share on the device: the step's tables, the residual stream, KV and scratch rows. Layers launch kernels;
// nothing here waits for them. A step is launched for a padded number of rows, so that steps of one shape replay one graph: what
// differs between such steps is in the tables.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "cuda/device.h"
#include "cuda/kernels/args.h"
#include "cuda/matrices.h"
#include "model/batch-rows.h"
#include "model/kv-blocks.h"
#include "model/linear.h"
#include "model/norm.h"

namespace chairlift {
namespace cuda {

class Work;

/** Memory that grows to the largest step. */
class Growing {
 public:
  /** New memory is zero. */
  DeviceMemory& room(Work& work, size_t bytes);

 private:
  DeviceMemory memory_;
};

/** Tables of a step by row; rows that pad it have token 0, position 0 and block -1. */
struct StepTables {
  const int32_t* tokens;
  const int32_t* positions;
  // The block of a row's own token.
  const int32_t* blocks;
  // Where a row's block table starts in `tables`, and one past its sequence's last position in this step.
  const int32_t* tableStarts;
  const int32_t* ends;
  const int32_t* tables;
  // Rows whose logits and whose final states are wanted.
  const int32_t* logitRows;
  const int32_t* stateRows;
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
};

/** Tiles of rows that members of a linear take, made on the device; without them all rows are of the first member. */
struct RowTiles {
  const Tile* tiles = nullptr;
  const int32_t* count = nullptr;
  // How many there can be.
  int most = 0;
};

/** Makes inputs and launches products. */
class Multiplier {
 public:
  explicit Multiplier(Work& work) : work_(work) {}

  void apply(const Linear& linear, const Input& input, int rows, float* out, size_t outStride, const RowTiles& tiles = {});

  /** The two halves of `apply`. The input stays until the next is made. */
  InputView makeInput(const Linear& linear, const Input& input, int rows, const RowTiles& tiles);
  void multiply(const Linear& linear, const InputView& input, int rows, float* out, size_t outStride, const RowTiles& tiles);

  /** For probes: a family of kernels that is used wherever a matrix has it. */
  void prefer(const std::string& family) { preferred_ = family; }

 private:
  /** A kernel for some matrices, and the grid that it takes for all their panels. */
  struct Choice {
    std::string kernel;
    Grid grid;
  };
  struct Extent {
    // Of all parts.
    int panels;
    // The most of a tile.
    int rows;
    int tiles, tilesOfMember;
    bool hasMembers;
  };
  Choice choose(const MatrixView& matrix, const Extent& extent) const;
  Choice chooseFloats(const MatrixView& matrix, const Extent& extent) const;
  std::optional<Choice> chooseMany(const MatrixView& matrix, const Extent& extent) const;
  Choice chooseFew(const MatrixView& matrix, const Extent& extent) const;

  Work& work_;
  std::string preferred_;
  Growing codes_, scales_, sums_, values_;
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
  NormArgs norm(const Norm& norm) {
    return {int32_t(norm.kind), normEpsilon, weights.vector(norm.weight), weights.vector(norm.bias)};
  }
  template <class Maybe>
  NormArgs maybeNorm(const Maybe& own) {
    return own ? norm(*own) : NormArgs{};
  }
  /** Measures the stream's rows for the norms that read it. */
  void measureStream();
  /** A table of `width` values by position, as far as the step's positions reach. */
  const float* byPosition(const std::string& name, size_t width, const std::function<void(int, float*)>& fill);
  /** Fills in what attentions share, and launches. */
  void launchAttention(AttentionArgs args, int cache);

  Device& device;
  DeviceWeights& weights;
  const KvLayout& kvLayout;
  const float normEpsilon;
  // With those that pad the step.
  int rows = 0;
  StepTables tables{};
  Stream stream;
  uint8_t* kv = nullptr;
  size_t kvStride = 0;
  // One past the last position of the step.
  int positionsEnd = 0;
  // Changes with every address that recorded launches may hold.
  uint64_t generation = 0;
  // By rope: by position, cosines then sines of all pairs.
  std::vector<const float*> rotations;
  std::vector<int> rotationPairs;
  Multiplier multiplier;

 private:
  struct PositionTable {
    Growing memory;
    int filled = 0;
  };

  std::map<std::string, Growing> scratch_;
  std::map<std::string, PositionTable> positionTables_;
};

}  // namespace cuda
}  // namespace chairlift
