// Residual streams beside the first, which is the one that layers change: see LayerAltUpSpec and AltUpSpec in
// src/model/spec.ts.
#pragma once

#include <vector>

#include "model/linear.h"
#include "model/norm.h"
#include "model/workspace.h"

namespace chairlift {

/** Of a layer: how streams are predicted from all of them, and corrected by what the first has become. */
struct AltUpMixing {
  Norm norm;
  Linear features, prediction, correction;
};

/** Make the others of the first one, and bring them back to it; one of each for every other stream. */
struct AltUpMaps {
  std::vector<Linear> spread, gather;
};

/** The streams of a step. The first is that of the workspace; whatever changes it measures it again. */
class AltUp {
 public:
  AltUp(const AltUpMaps& maps, Workspace& work);

  void spread();
  void predict(const AltUpMixing& mixing);
  void correct(const AltUpMixing& mixing);
  /** Adds a row to each other stream of a row. */
  void tell(int row, const float* news);
  /** The first becomes the mean of all. */
  void gather();

 private:
  size_t count() const { return predicted_.size(); }
  float* rowOf(size_t stream, int row) const;
  float* predictedRow(size_t stream, int row) const;
  /** A row of coefficients for each row, `stride` apart. */
  const float* coefficients(const AltUpMixing& mixing, const Linear& linear, size_t stride);
  void scaleAs(float* values, const float* like) const;

  const AltUpMaps& maps_;
  Workspace& work_;
  // All but the first; and as the layer at hand predicted them, all.
  std::vector<RowBuffer> others_, predicted_;
};

}  // namespace chairlift
