// See tower.h.

#include "cuda/tower/tower.h"

#include <set>

namespace chairlift {
namespace cuda {

CudaTower::CudaTower(std::shared_ptr<CudaModel> model, Tower tower) : model_(std::move(model)), tower_(std::move(tower)) {
  for (const TowerStep& step : tower_.steps) {
    if (step.mlp) take(*step.mlp);
    for (const TowerBranch& branch : step.branches) {
      std::visit([&](const auto& body) { take(body); }, branch.body);
    }
  }
}

std::shared_ptr<Work> CudaTower::work() {
  std::shared_ptr<Work> work = work_.lock();
  if (!work) {
    work = std::make_shared<Work>(device(), model_->weights(), noCache_, 0.0f);
    work_ = work;
  }
  return work;
}

const int32_t* CudaTower::pairs(const GridAttention& attention) const {
  const auto found = pairs_.find(&attention);
  return found == pairs_.end() ? nullptr : found->second.as<int32_t>();
}

const Linear* CudaTower::find(const void* body) const {
  const auto found = joined_.find(body);
  return found == joined_.end() ? nullptr : &found->second;
}

void CudaTower::join(const void* body, const std::vector<const TowerLinear*>& maps) {
  Linear joined;
  for (size_t i = 0; i < maps.size(); i++) {
    if (maps[i]->inputBounds) return;
    for (Linear::Part part : maps[i]->linear.parts) {
      part.offset += i * paddedLength(maps[i]->outputs);
      joined.parts.push_back(std::move(part));
    }
  }
  joined_[body] = std::move(joined);
}

void CudaTower::take(const GridAttention& attention) {
  if (!AttentionPieces::takesFloats(device(), attention.headSize)) {
    throw DeviceError("heads of " + std::to_string(attention.headSize) + " values in a vision tower need more shared memory than " +
                      device().name() + " has: without the tower, the model serves text");
  }
  join(&attention, {&attention.query, &attention.key, &attention.value});
  if (attention.pairs.empty()) return;
  std::vector<int32_t> places;
  for (const auto& [first, second] : attention.pairs) places.insert(places.end(), {first, second});
  // Threads turn them side by side.
  require(std::set<int32_t>(places.begin(), places.end()).size() == places.size(), "a value that turns twice");
  DeviceMemory memory(device(), places.size() * sizeof(int32_t));
  device().upload(memory.as<int32_t>(), places.data(), places.size() * sizeof(int32_t));
  pairs_.emplace(&attention, std::move(memory));
}

void CudaTower::take(const TowerMlp& mlp) {
  if (mlp.gate) join(&mlp, {&mlp.up, &*mlp.gate});
}

}  // namespace cuda
}  // namespace chairlift
