// A vision tower on the device: the processor's description of it, with maps over one input joined, and what views work in.
#pragma once

#include <map>
#include <memory>

#include "cuda/model.h"
#include "tower/tower.h"

namespace chairlift {
namespace cuda {

class CudaTower {
 public:
  /** Throws where kernels cannot run it on this device. */
  CudaTower(std::shared_ptr<CudaModel> model, Tower tower);

  const Tower& tower() const { return tower_; }
  Device& device() const { return model_->device(); }
  /** Scratch of all views that are under way; released with the last of them. */
  std::shared_ptr<Work> work();

  /** Queries, keys and values, or up and gate, as one map; each begins at a multiple of its padded width. Null: they have bounds. */
  const Linear* joined(const GridAttention& attention) const { return find(&attention); }
  const Linear* joined(const TowerMlp& mlp) const { return find(&mlp); }
  /** On the device; null where none is turned. */
  const int32_t* pairs(const GridAttention& attention) const;

 private:
  const Linear* find(const void* body) const;
  void join(const void* body, const std::vector<const TowerLinear*>& maps);
  void take(const GridAttention& attention);
  void take(const TowerMlp& mlp);

  const std::shared_ptr<CudaModel> model_;
  const Tower tower_;
  // Of nothing: views keep keys and values of their own.
  const KvLayout noCache_{KvType::F32, {}};
  std::map<const void*, Linear> joined_;
  std::map<const GridAttention*, DeviceMemory> pairs_;
  std::weak_ptr<Work> work_;
};

}  // namespace cuda
}  // namespace chairlift
