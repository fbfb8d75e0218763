// A loaded model: layers of branches of parts, the KV blocks, and the step that advances a batch of sequences. It knows
// no file and no model's name; see `ModelSpec` in src/model/spec.ts for what its parts mean.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "layers/altup.h"
#include "layers/per-layer-inputs.h"
#include "model/body.h"

namespace chairlift {

/** Adds to the residual stream what its parts give together. */
struct Branch {
  std::vector<Part> parts;
  std::optional<Norm> output;
  float scale = 1;
  // Factor on the residual stream once it is added, and its norm.
  float streamScale = 1;
  std::optional<Norm> streamNorm;
};

struct Layer {
  std::vector<Branch> branches;
  std::optional<LayerAltUp> altUp;
};

/** What an adapter adds to embeddings: `scale * up(row)` of a token's row in the table. */
struct EmbeddingAddition {
  int adapter;
  float scale;
  int rank;
  std::shared_ptr<Matrix> table;
  Linear up;
};

struct ModelParts {
  int hiddenSize = 0;
  int vocabSize = 0;
  float normEpsilon = 0;
  float embeddingScale = 1;
  float logitScale = 1;
  // 0: none.
  float logitSoftcap = 0;
  std::vector<Rope> ropes;
  KvLayout kv;
  // Of bodies without KV, in the order of their numbers.
  std::vector<StateLayout> recurrentStates;
  std::shared_ptr<Matrix> embedding;
  std::vector<EmbeddingAddition> embeddingAdditions;
  // What is added to embeddings, where it is: a row by position, and one for all; then the norm of that.
  std::shared_ptr<Matrix> positions;
  std::vector<float> textKind;
  std::optional<Norm> embeddingNorm;
  std::optional<PerLayerInputs> perLayerInputs;
  // Of further residual streams.
  std::optional<AltUpMaps> altUp;
  std::vector<Layer> layers;
  std::optional<Norm> finalNorm;
  Linear head;
};

class Model {
 public:
  Model(ModelParts parts, int blockCount, int stateSlots, const KernelTable& kernels, std::shared_ptr<ThreadPool> pool);

  int hiddenSize() const { return parts_.hiddenSize; }
  int vocabSize() const { return parts_.vocabSize; }
  int blockCount() const { return work_.kv.count(); }
  int stateSlots() const { return work_.recurrentStates.slots(); }
  bool isRecurrent() const { return !parts_.recurrentStates.empty(); }

  /** `logits` takes a row of vocabSize values for each of `logitRows`, `states` one of hiddenSize for each of `stateRows`. */
  void step(const StepInput& input, float* logits, float* states);
  /** Shares each step among so many threads; at most as many as it was made with. */
  void useThreads(int threads) { pool_->use(threads); }
  /** Gives the memory of blocks that nobody uses back to the system. */
  void releaseBlocks(std::vector<int32_t> blocks) { work_.kv.release(std::move(blocks)); }

 private:
  void noteStreamNorm(const Norm& norm) { readsStream_[size_t(norm.kind)] = true; }
  void noteStreamNorms(const Part& part);
  void prepare(const StepInput& input);
  void embed(const std::vector<int32_t>& tokens);
  void embedAdapted(const std::vector<int32_t>& tokens);
  void addToEmbedding(int row, float* place);
  void runLayer(const Layer& layer);
  void runBranch(const Branch& branch);
  void takeStates(const StepInput& input, float* states);
  void runHead(const StepInput& input, float* logits);

  const ModelParts parts_;
  const std::shared_ptr<ThreadPool> pool_;
  Workspace work_;
  // By NormKind: whether any norm of the residual stream is of it.
  bool readsStream_[2] = {};
  RowBuffer stream_;
  // What adapters make of tokens, and what they add to their embeddings.
  RowBuffer tokenRows_, addedRows_;
  // What the parts of a branch give together, and what one of them gives.
  RowBuffer branchRows_, partRows_;
  std::optional<AltUp> altUp_;
};

}  // namespace chairlift
