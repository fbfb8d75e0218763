// Which experts a row goes to, and how much each counts.
#pragma once

#include <optional>
#include <vector>

#include "model/linear.h"
#include "model/norm.h"

namespace chairlift {

/** Only the best groups of experts take part: by their best score, or the sum of their best two. */
struct ExpertGroups {
  int count, used;
  bool byBestTwo;
};

struct Router {
  int experts = 0;
  // Of each row.
  int used = 0;
  Linear linear;
  // Softmax where not.
  bool isSigmoid = false;
  // Added to scores for the choice alone; empty: nothing.
  std::vector<float> routingBias;
  std::optional<ExpertGroups> groups;
  // The scores of chosen experts are divided by their sum.
  bool normalized = false;
  double scale = 1;
  // A factor for each expert; empty: none.
  std::vector<float> expertScales;
  // Rows of the residual stream as the router sees them, where that is not what experts see.
  std::optional<Norm> norm;
};

struct Choice {
  int expert;
  float weight;
};

/** Writes the `used` choices of a row, the best first; of equals the lower expert. */
void choose(const Router& router, const float* logits, Choice* choices);

}  // namespace chairlift
