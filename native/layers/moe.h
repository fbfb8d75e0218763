// A mixture of feed-forwards: every row goes through the few that its router chooses.
#pragma once

#include "layers/mlp.h"
#include "layers/router.h"
#include "model/workspace.h"

namespace chairlift {

struct Experts {
  Router router;
  // A member of its matrices for each expert.
  Mlp each;
  // Weights are factors on what experts read, not on what they give.
  bool scalesInput = false;
};

/** Writes an output row for each row of `input`. */
void runMoe(const Experts& experts, const InputRows& input, Workspace& work, float* out);

}  // namespace chairlift
