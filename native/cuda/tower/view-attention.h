// Attention between the rows of a view on the device: see tower/view-attention.h. Keys and values of all rows are kept, in float32,
// until the layer's last row is computed.
#pragma once

#include "cuda/tower/view-lists.h"
#include "cuda/tower/view-maps.h"

namespace chairlift {
namespace cuda {

class ViewAttention {
 public:
  /** With room for every attention of a program. */
  ViewAttention(CudaTower& tower, ViewMaps& maps, const ViewLists& lists, const TowerProgram& program);

  /** Makes queries, keys and values of `count` rows from `first` on. `input` begins with the first of them. */
  void project(const GridAttention& attention, const TowerOperation& operation, float epsilon, const Input& input, int first,
               int count);
  /** What `count` places of the groups' order see, from `first` on, as the output map gives it; once all rows are projected. */
  void attend(const GridAttention& attention, const TowerOperation& operation, int first, int count, const DeviceRows& to);

 private:
  CudaTower& tower_;
  ViewMaps& maps_;
  const ViewLists& lists_;
  const TowerProgram& program_;
  DeviceMemory queries_, keysAndValues_;
};

}  // namespace cuda
}  // namespace chairlift
