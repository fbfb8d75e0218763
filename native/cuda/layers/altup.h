// AltUp on the device: see AltUp in layers/altup.h.
#pragma once

#include "cuda/work.h"
#include "layers/altup.h"

namespace chairlift {
namespace cuda {

/** The streams of a step; the first is the residual stream of `work`. */
class DeviceAltUp {
 public:
  DeviceAltUp(const AltUpMaps& maps, Work& work);

  void spread();
  void predict(const LayerAltUp& layer);
  void correct(const LayerAltUp& layer);
  void addPerLayer(const LayerAltUp& layer);
  void gather();

 private:
  const float* coefficients(const LayerAltUp& layer, const Linear& linear, size_t stride);

  const AltUpMaps& maps_;
  Work& work_;
  AltUpArgs streams_{};
};

}  // namespace cuda
}  // namespace chairlift
