// Construction of a model and of a step's inputs; the forward pass is in forward.cc.

#include "model/model.h"

#include <algorithm>

namespace chairlift {

namespace {

/** Empty where no sequence uses one. */
std::vector<int32_t> rowAdapters(const StepInput& input) {
  const auto isUsed = [](int32_t adapter) { return adapter >= 0; };
  if (std::none_of(input.adapters.begin(), input.adapters.end(), isUsed)) return {};
  std::vector<int32_t> adapters(input.tokens.size(), -1);
  for (size_t sequence = 0; sequence < input.adapters.size(); sequence++) {
    std::fill(adapters.begin() + input.rowStarts[sequence], adapters.begin() + input.rowStarts[sequence + 1],
              input.adapters[sequence]);
  }
  return adapters;
}

}  // namespace

Model::Model(ModelParts parts, int blockCount, int stateSlots, const KernelTable& kernels,
             std::shared_ptr<ThreadPool> pool)
    : parts_(std::move(parts)),
      pool_(std::move(pool)),
      work_(kernels, *pool_, parts_.kv, blockCount, parts_.recurrentStates, stateSlots, parts_.normEpsilon) {
  work_.stream.stride = paddedLength(parts_.hiddenSize);
  work_.stream.size = parts_.hiddenSize;
  int valueSize = 0;
  for (const KvCache& cache : parts_.kv.caches) valueSize = std::max(valueSize, cache.valueSize());
  work_.attentionScratch.resize(size_t(pool_->threads()));
  for (auto& scratch : work_.attentionScratch) scratch.resize(attentionScratchFloats(valueSize));

  if (parts_.finalNorm) noteStreamNorm(*parts_.finalNorm);
  for (const Layer& layer : parts_.layers) {
    for (const Branch& branch : layer.branches) {
      for (const Part& part : branch.parts) noteStreamNorms(part);
    }
    if (!layer.altUp) continue;
    noteStreamNorm(layer.altUp->norm);
    noteStreamNorms(layer.altUp->perLayer);
  }
  if (parts_.mtp) {
    noteStreamNorm(parts_.mtp->finalNorm);
    for (const Branch& branch : parts_.mtp->layer.branches) {
      for (const Part& part : branch.parts) noteStreamNorms(part);
    }
  }
  if (parts_.altUp) altUp_.emplace(*parts_.altUp, work_);
}

void Model::noteStreamNorms(const Part& part) {
  if (part.input) noteStreamNorm(*part.input);
  if (const Norm* norm = part.body->streamNorm()) noteStreamNorm(*norm);
}

void Model::prepare(const StepInput& input) {
  const size_t rows = input.tokens.size();
  work_.normEpsilon = parts_.normEpsilon;
  work_.batch.set(input, parts_.ropes);
  work_.multiplier.use(rowAdapters(input));
  work_.stream.x = stream_.rows(rows, work_.stream.stride);
  for (size_t kind = 0; kind < 2; kind++) {
    if (readsStream_[kind]) work_.stream.scales[kind].resize(rows);
  }
  for (const RowGroup& group : work_.batch.groups()) {
    for (int row = group.firstRow; row < group.firstRow + group.rows; row++) work_.kv.hold(work_.batch.block(row));
  }
}

}  // namespace chairlift
