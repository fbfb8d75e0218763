// AltUp: further residual streams with the first, which is the one that layers change. See LayerAltUpSpec and AltUpSpec in
// src/model/spec.ts.
#pragma once

#include <vector>

#include "model/body.h"
#include "model/record.h"

namespace chairlift {

class Reader;

/** How a layer predicts all streams from all of them, and corrects them by what the first has become. */
struct LayerAltUp {
  Norm norm;
  Linear features, prediction, correction;
  // Its output, of the first stream, is added to all others in the end.
  Part perLayer;
  // A factor for each value of the first stream as `perLayer` reads it, or empty.
  std::vector<float> perLayerScale;
};

/** Make the others of the first one, and bring them back to it; one of each for every other stream. */
struct AltUpMaps {
  std::vector<Linear> spread, gather;
};

AltUpMaps readAltUp(const Record& from, const Reader& reader);
LayerAltUp readLayerAltUp(const Record& from, Reader& reader);

/** The streams of a step. The first is that of the workspace; whatever changes it measures it again. */
class AltUp {
 public:
  AltUp(const AltUpMaps& maps, Workspace& work);

  void spread();
  void predict(const LayerAltUp& layer);
  void correct(const LayerAltUp& layer);
  void addPerLayer(const LayerAltUp& layer);
  /** The first becomes the mean of all. */
  void gather();

 private:
  size_t count() const { return predicted_.size(); }
  float* rowOf(size_t stream, int row) const;
  float* predictedRow(size_t stream, int row) const;
  /** A row of coefficients for each row, `stride` apart. */
  const float* coefficients(const LayerAltUp& layer, const Linear& linear, size_t stride);
  void scaleAs(float* values, const float* like) const;

  const AltUpMaps& maps_;
  Workspace& work_;
  // All but the first; and as the layer at hand predicted them, all.
  std::vector<RowBuffer> others_, predicted_;
  // What a layer's `perLayer` reads and gives.
  RowBuffer perLayerInput_, perLayerOutput_;
};

}  // namespace chairlift
