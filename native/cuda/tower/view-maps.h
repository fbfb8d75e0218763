// What towers do with rows alone, on the device: see tower/row-maps.h.
#pragma once

#include "cuda/kernels/vision-args.h"
#include "cuda/tower/tower.h"

namespace chairlift {
namespace cuda {

/** Rows on the device, padded to whole groups. */
struct DeviceRows {
  float* x;
  size_t stride;
  int size;

  DeviceRows from(int first) const { return {x + size_t(first) * stride, stride, size}; }
};

class ViewMaps {
 public:
  explicit ViewMaps(CudaTower& tower) : work(tower.work()), tower_(tower) {}

  /** As a map's input: normalized, where there is a norm; until the next call. */
  Input inputOf(const DeviceRows& rows, int count, const std::optional<SizedNorm>& norm, float epsilon);
  /** The same with an activation of rows, which may be changed, times `up` where it is given. */
  Input activated(const DeviceRows& rows, const DeviceRows* up, const Curve& curve, int count);
  void apply(const TowerLinear& map, const Input& input, int count, const DeviceRows& to);
  void apply(const TowerMlp& mlp, const Input& input, int count, const DeviceRows& to);
  /** Writes rows as a map would read them; may be in place. */
  void write(const Input& input, int count, const DeviceRows& to);
  void change(const ChangeRowsArgs& how, const DeviceRows& rows, int count);
  DeviceRows room(const char* name, int count, int size);

  NormArgs norm(const std::optional<SizedNorm>& norm, float epsilon);
  const float* vector(const std::vector<float>& values) { return work->weights.vector(values); }

  const std::shared_ptr<Work> work;

 private:
  void hold(const DeviceRows& rows, int count, Bounds bounds);

  CudaTower& tower_;
};

}  // namespace cuda
}  // namespace chairlift
