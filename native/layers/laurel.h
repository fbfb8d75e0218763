// `x + norm(up(down(x)))`.
#pragma once

#include "model/linear.h"
#include "model/norm.h"
#include "model/workspace.h"

namespace chairlift {

struct Laurel {
  int rank = 0;
  Linear down, up;
  Norm norm;
};

/** Writes an output row for each row of `input`. */
void runLaurel(const Laurel& body, const InputRows& input, Workspace& work, float* out);

}  // namespace chairlift
