// Per-layer embeddings: see src/model/layers/per-layer-inputs.ts.
#pragma once

#include <memory>

#include "model/body.h"
#include "model/linear.h"
#include "model/norm.h"
#include "model/record.h"
#include "model/workspace.h"

namespace chairlift {

class Reader;

struct PerLayerInputs {
  int count = 0;
  int size = 0;
  std::shared_ptr<Matrix> table;
  // Rows of images have its row.
  int imageToken = 0;
  float tableScale = 1;
  Linear projection;
  float projectionScale = 1;
  Norm norm;

  int width() const { return count * size; }
  size_t stride() const { return paddedLength(width()); }
};

/** Gates one layer's values of the inputs. */
struct PerLayerInput final : Body {
  int index = 0;
  int size = 0;
  Curve curve;
  Linear gate;
  Linear output;

  void run(const InputRows& input, Workspace& work, float* out) const override;
  const Linear* inputLinear() const override { return &gate; }
};

PerLayerInputs readPerLayerInputs(const Record& from, const Reader& reader);

/** Reads the residual stream as it enters the first layer. */
void makePerLayerInputs(const PerLayerInputs& inputs, const std::vector<int32_t>& tokens, Workspace& work);

}  // namespace chairlift
