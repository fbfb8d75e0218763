// A vision tower's weights, step by step: see `TowerStep` in src/model/vision/vision-spec.ts. What each step reads and writes for a
// view is in its program.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "model/linear.h"
#include "model/norm.h"
#include "model/reader.h"

namespace chairlift {

struct Bounds {
  float least, most;
};

struct TowerLinear {
  Linear linear;
  int inputs = 0, outputs = 0;
  // Both or none.
  std::optional<Bounds> inputBounds, outputBounds;
};

struct SizedNorm {
  Norm norm;
  int size;
};

struct GridAttention {
  int headCount = 0, headSize = 0;
  TowerLinear query, key, value, output;
  // Over each head, or over all of them together, by their size.
  std::optional<SizedNorm> queryNorm, keyNorm, valueNorm;
  // The two values of a head that each pair turns.
  std::vector<std::pair<int, int>> pairs;
  float scale = 1;

  int width() const { return headCount * headSize; }
};

struct TowerMlp {
  Curve curve;
  std::optional<TowerLinear> gate;
  TowerLinear up, down;
};

struct TowerBranch {
  std::optional<SizedNorm> input;
  std::variant<GridAttention, TowerMlp> body;
  std::optional<SizedNorm> output;
  // Empty, or a factor for each channel of what is added.
  std::vector<float> scales;
};

struct PatchMaps {
  int size = 0, frames = 1;
  bool channelsFirst = true;
  // What they give is added.
  std::vector<TowerLinear> linears;

  int values() const { return 3 * frames * size * size; }
};

struct TowerStep {
  enum class Kind {
    Patches, Linear, Norm, Activation, Affine, Standardize, Token, Tables, Layer, FeedForward,
    // All that moves rows and has no weights.
    Bare
  };
  Kind kind = Kind::Bare;
  float epsilon = 0;
  PatchMaps patches;
  TowerLinear linear;
  std::optional<SizedNorm> norm;
  Curve curve;
  float factor = 1, shift = 0;
  std::vector<float> shifts, scales;
  std::vector<float> token;
  // By column of `Taps`: positions of cells.
  std::vector<std::shared_ptr<Matrix>> tables;
  std::vector<TowerBranch> branches;
  std::optional<TowerMlp> mlp;
};

struct Tower {
  std::vector<TowerStep> steps;
};

/** `steps` are those of src/compute/tower/program.ts, flat. */
Tower readTower(const Record& steps, const std::vector<std::shared_ptr<Matrix>>& matrices);

}  // namespace chairlift
