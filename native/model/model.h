// A loaded model: its layers, KV blocks and recurrent states, and the step that advances a batch of sequences. See `ModelSpec` in
// src/model/spec.ts for what its parts mean.
#pragma once

#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "layers/altup.h"
#include "layers/per-layer-inputs.h"
#include "model/body.h"

namespace chairlift {

/** Adds the sum of its parts to the residual stream. */
struct Branch {
  std::vector<Part> parts;
  std::optional<Norm> output;
  float scale = 1;
  // Applied to the residual stream after the addition.
  float streamScale = 1;
  std::optional<Norm> streamNorm;
};

struct Layer {
  std::vector<Branch> branches;
  std::optional<LayerAltUp> altUp;
};

/** An adapter adds `scale * up(row)` to a token's embedding, with the token's row of the table. */
struct EmbeddingAddition {
  int adapter;
  float scale;
  int rank;
  std::shared_ptr<Matrix> table;
  Linear up;
};

/** Places of the residual stream, each after a number of layers, side by side. */
struct Features {
  std::vector<int> after;
  Linear projection;
};

/** A head that predicts the token after the next one: see `MtpOfLayer` in src/model/layers/mtp.ts. */
struct Mtp {
  float normEpsilon = 0;
  // Null: the model's.
  std::shared_ptr<Matrix> embedding;
  Norm embeddingNorm, stateNorm;
  // In place of the model's last state.
  std::optional<Features> features;
  // States are as the last layer leaves them, before its norm.
  bool beforeNorm = false;
  // Of both, the embedding first unless `stateFirst`. Absent: the layer's attention reads both, and adds to the state, which is
  // normalized before where `addsToNormed`.
  std::optional<Linear> projection;
  bool stateFirst = false;
  bool addsToNormed = false;
  // Attention, which is all that is run of a step's rows, and a feed-forward.
  Layer layer;
  Norm finalNorm;
  // The model's where there is none.
  std::optional<Linear> output;
  // What its rows stand for; empty: all tokens.
  std::vector<int32_t> tokens;
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
  std::vector<StateLayout> recurrentStates;
  std::shared_ptr<Matrix> embedding;
  std::vector<EmbeddingAddition> embeddingAdditions;
  // Added to embeddings: a row by position, and one for all rows; then the norm.
  std::shared_ptr<Matrix> positions;
  std::vector<float> textKind;
  std::optional<Norm> embeddingNorm;
  std::optional<PerLayerInputs> perLayerInputs;
  std::optional<AltUpMaps> altUp;
  std::vector<Layer> layers;
  std::optional<Norm> finalNorm;
  Linear head;
  // Its KV cache is the last one.
  std::optional<Mtp> mtp;
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
  bool predicts() const { return parts_.mtp.has_value(); }
  /**
   * A row for each sequence, whose token follows those that steps and earlier calls have computed: the MTP head's logits of the
   * token after it. The head's state stands for the model's, until a step computes the same positions.
   */
  void predict(const StepInput& input, float* logits);
  /** At most as many as the pool has. */
  void useThreads(int threads) { pool_->use(threads); }
  void releaseBlocks(std::vector<int32_t> blocks) { work_.kv.release(std::move(blocks)); }

  /** What a block, or a slot of recurrent states, holds: copied out and in between steps. */
  size_t blockBytes() const { return work_.kv.contentBytes(); }
  size_t stateBytes() const { return work_.recurrentStates.contentBytes(); }
  void readBlock(int block, uint8_t* to) const { memcpy(to, work_.kv.content(block), blockBytes()); }
  void writeBlock(int block, const uint8_t* from) {
    work_.kv.hold(block);
    memcpy(work_.kv.content(block), from, blockBytes());
  }
  void readState(int slot, uint8_t* to) const { memcpy(to, work_.recurrentStates.at(slot, 0), stateBytes()); }
  void writeState(int slot, const uint8_t* from) { memcpy(work_.recurrentStates.at(slot, 0), from, stateBytes()); }

 private:
  void noteStreamNorm(const Norm& norm) { readsStream_[size_t(norm.kind)] = true; }
  void noteStreamNorms(const Part& part);
  void prepare(const StepInput& input);
  void embed(const std::vector<int32_t>& tokens);
  void embedAdapted(const std::vector<int32_t>& tokens);
  void addToEmbedding(int row, float* place);
  void embedImages(const ImageRows& images);
  void addToImages(const std::vector<int32_t>& rows, const float* added);
  void runLayer(const Layer& layer);
  /** Its parts read the residual stream, or rows that are given. */
  void runBranch(const Branch& branch, const InputRows* given = nullptr);
  void takeStates(const StepInput& input, float* states);
  void runHead(const StepInput& input, float* logits);
  void runHead(const Linear& head, const InputRows& states, int rows, float* logits);
  void embedForMtp(const StepInput& input);
  void takeFeatures(int layers);
  void feedMtp(const StepInput& input);
  void takeMtpState(int row, const Norm& norm, float* state) const;
  InputRows joinForMtp(const float* states);
  void runMtpLayer(const InputRows& joined);
  void runMtpHead(int rows, float* logits);
  void keepState(int row, const float* state);

  const ModelParts parts_;
  const std::shared_ptr<ThreadPool> pool_;
  Workspace work_;
  // By NormKind: whether a norm of the kind reads the residual stream.
  bool readsStream_[2] = {};
  RowBuffer stream_;
  // Rows of adapters' embedding tables, and what they add.
  RowBuffer tokenRows_, addedRows_;
  // The sum of a branch, and the output of one part.
  RowBuffer branchRows_, partRows_;
  // For an MTP head: what states of a step are made of, these, what its projection or its layer reads, and logits of its own
  // vocabulary.
  RowBuffer featureRows_, finalStates_, joinedRows_, fewLogits_;
  std::optional<AltUp> altUp_;
};

}  // namespace chairlift
