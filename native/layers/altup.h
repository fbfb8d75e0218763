// AltUp: several residual streams, of which layers change the first. See src/model/layers/altup.ts.
#pragma once

#include <vector>

#include "model/body.h"
#include "model/record.h"

namespace chairlift {

class Reader;

struct LayerAltUp {
  Norm norm;
  Linear features, prediction, correction;
  // Reads the first stream; its output is added to all others.
  Part perLayer;
  // A factor for each value of the first stream as `perLayer` reads it, or empty.
  std::vector<float> perLayerScale;
};

/** One of each for every stream but the first. */
struct AltUpMaps {
  std::vector<Linear> spread, gather;
};

AltUpMaps readAltUp(const Record& from, const Reader& reader);
LayerAltUp readLayerAltUp(const Record& from, Reader& reader);

/** The streams of a step. The first is the workspace's; its scales are measured again after each change. */
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
  const float* coefficients(const LayerAltUp& layer, const Linear& linear, size_t stride);
  void scaleAs(float* values, const float* like) const;

  const AltUpMaps& maps_;
  Workspace& work_;
  // All streams but the first, and the predictions of all.
  std::vector<RowBuffer> others_, predicted_;
  RowBuffer perLayerInput_, perLayerOutput_;
};

}  // namespace chairlift
