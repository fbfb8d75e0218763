// LAuReL: `x + norm(up(down(x)))`.
#pragma once

#include "model/body.h"

namespace chairlift {

struct Laurel final : Body {
  int rank = 0;
  Linear down, up;
  Norm norm;

  void run(const InputRows& input, Workspace& work, float* out) const override;
  const Linear* inputLinear() const override { return &down; }
};

}  // namespace chairlift
