// What every kind of layer is to the forward pass. Each has a file in layers/.
#pragma once

#include <memory>
#include <optional>
#include <stdexcept>

#include "model/linear.h"
#include "model/norm.h"
#include "model/workspace.h"

namespace chairlift {

struct Body {
  virtual ~Body() = default;
  /** Writes an output row for each row of `input`. */
  virtual void run(const InputRows& input, Workspace& work, float* out) const = 0;
  /** Only writes what `run` would write to the KV cache; of attention alone. */
  virtual void store(const InputRows&, Workspace&) const { throw std::logic_error("a layer without a KV cache"); }
  /** The norm that it applies to the residual stream itself, or null. */
  virtual const Norm* streamNorm() const { return nullptr; }
  /** The linear map that reads the rows of `input` as they are, or null. */
  virtual const Linear* inputLinear() const { return nullptr; }
};

/** A body between norms. */
struct Part {
  std::optional<Norm> input;
  std::unique_ptr<Body> body;
  // Applied by the caller, row by row.
  std::optional<Norm> output;

  void run(Workspace& work, float* out) const {
    body->run(input ? work.stream.normalized(*input) : work.stream.rows(), work, out);
  }
};

}  // namespace chairlift
