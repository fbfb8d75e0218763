// A mixture of experts. Rows are gathered by expert, so that the weights of each are read once, and those that no row chose not
// at all. A row's result does not depend on the other rows.
#pragma once

#include <optional>
#include <vector>

#include "layers/mlp.h"

namespace chairlift {

/** Only the best groups of experts take part, by their best score or the sum of their best two. */
struct ExpertGroups {
  int count, used;
  bool byBestTwo;
};

struct Router {
  int experts = 0;
  int used = 0;
  Linear linear;
  bool isSigmoid = false;
  // Added to scores for the choice alone; may be empty.
  std::vector<float> routingBias;
  std::optional<ExpertGroups> groups;
  bool normalized = false;
  double scale = 1;
  // May be empty.
  std::vector<float> expertScales;
  // Of the residual stream, where the router does not read what experts read.
  std::optional<Norm> norm;
};

struct Moe final : Body {
  Router router;
  Mlp each;
  // Weights scale the input of experts, not their output.
  bool scalesInput = false;

  void run(const InputRows& input, Workspace& work, float* out) const override;
  const Linear* inputLinear() const override { return &each.projection; }
  const Norm* streamNorm() const override { return router.norm ? &*router.norm : nullptr; }
};

}  // namespace chairlift
