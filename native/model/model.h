// A loaded model: sizes, weights, the K/V blocks, and the step that advances a batch of sequences.
// It knows no file and no model's name; loading fills it matrix by matrix.
#pragma once

#include <memory>
#include <vector>

#include "kernels/kernels.h"
#include "model/kv-blocks.h"
#include "model/matrix.h"
#include "system/page-buffer.h"
#include "system/thread-pool.h"

namespace chairlift {

struct ModelShape {
  int hiddenSize = 0;
  int headCount = 0;
  int kvHeadCount = 0;
  int headSize = 0;
  int ffnSize = 0;
  int vocabSize = 0;
  int layerCount = 0;
  int blockCount = 0;
  float normEpsilon = 0;
  float embeddingScale = 1;
  float attentionScale = 1;
  // 0: none.
  float attentionSoftcap = 0;
  float logitSoftcap = 0;
  Activation activation = Activation::Silu;
  KvType kvType = KvType::F16;

  KvLayout kv() const { return {kvType, headSize, kvHeadCount, layerCount}; }
};

struct Rope {
  std::vector<double> inverseFrequencies;
  float magnitude = 1;
};

/** Several matrices over one input; each writes its own columns of the output row. */
struct Linear {
  struct Part {
    std::shared_ptr<Matrix> matrix;
    // Empty, or padded to whole panels.
    std::vector<float> bias;
    int offset;
  };
  std::vector<Part> parts;

  int panels() const;
  /** Whether any part reads int8 activations, or float ones. */
  bool readsCodes() const;
  bool readsValues() const;
};

// Norm weights are padded with zeros to 32; an absent norm is empty.
struct Layer {
  std::vector<float> attentionNorm, queryNorm, keyNorm, attentionPostNorm, ffnNorm, ffnPostNorm;
  Linear qkv, output, gateUp, down;
  int rope = 0;
  // 0: every earlier token is seen.
  int window = 0;
};

/** One batch: see `Batch` in src/compute/backend.ts. */
struct StepInput {
  std::vector<int32_t> tokens, rowStarts, starts, blocks, blockStarts, logitRows, stateRows;
};

class Model {
 public:
  Model(const ModelShape& shape, const KernelTable& kernels, std::shared_ptr<ThreadPool> pool);

  ModelShape shape;
  std::vector<Layer> layers;
  std::vector<Rope> ropes;
  std::shared_ptr<Matrix> embedding;
  std::vector<float> finalNorm;
  Linear head;

  /** Packs consecutive rows, from a multiple of 16 on, into a matrix on all threads; throws where a scale is not finite. */
  void pack(Matrix& matrix, int firstRow, const uint8_t* rows, int count);
  /** `logits` takes a row of vocabSize values for each of `logitRows`, `states` one of hiddenSize for each of `stateRows`. */
  void step(const StepInput& input, float* logits, float* states);
  /** Shares each step among so many threads; at most as many as it was made with. */
  void useThreads(int threads) { pool_->use(threads); }
  /** Gives the memory of blocks that nobody uses back to the system. */
  void releaseBlocks(std::vector<int32_t> blocks) { kv_.release(std::move(blocks)); }

 private:
  /** A part of the attention work: some rows of one sequence, one K/V head. */
  struct AttentionPiece {
    int sequence, kvHead, firstRow, rows;
  };

  /** Rows a linear is to read: as they are, normalized where there is a weight, gated where there is an up. */
  struct InputSource {
    float* x;
    size_t stride;
    int count;
    const float* weight = nullptr;
    const float* factors = nullptr;
    const float* up = nullptr;
  };

  void prepare(const StepInput& input);
  template <class Run>
  void eachRow(int rows, const Run& run);
  void embed(const StepInput& input, int row);
  void runLayer(const StepInput& input, int index);
  void takeStates(const StepInput& input, float* states);
  void runHead(const StepInput& input, float* logits);
  /** Adds a branch's output to the residual stream, after its own norm where it has one. */
  void addBranch(int row, const std::vector<float>& postNorm);
  float rmsFactor(int row) const;
  /** The residual stream behind a norm. */
  InputSource normalized(const std::vector<float>& norm);
  /** Makes rows the input of `reader`, in the forms that it reads; good until the next input is made. */
  Activations makeInput(int rows, const InputSource& source, const Linear& reader);
  void rotateAndStore(const StepInput& input, const Layer& layer, int layerIndex, int row);
  void normalizeHead(float* head, const std::vector<float>& weight, float* padded) const;
  void attend(const StepInput& input, const Layer& layer, int layerIndex, const AttentionPiece& piece, int worker);
  void multiply(const Linear& linear, const Activations& input, float* out, size_t outStride);

  const KernelTable& kernels_;
  const std::shared_ptr<ThreadPool> pool_;
  KvBlocks kv_;

  // Row lengths of the buffers below, padded to whole groups.
  size_t hiddenStride_, qkvStride_, attentionStride_, ffnStride_;
  int rowCapacity_ = 0;
  // Residual stream; its normalized form for float weights; output of a branch; q, k and v; attention's output; gate and up.
  std::vector<float> residual_, normed_, branch_, qkv_, attended_, gateUp_;
  // 1 / rms of each row of the residual stream.
  std::vector<float> factors_;
  // The int8 form of a linear's input.
  PageBuffer codes_, sides_;
  // Cosines, then sines, per rope and row.
  std::vector<std::vector<float>> rotations_;
  std::vector<int> rowSequence_, rowPosition_;
  std::vector<AttentionPiece> pieces_;
  std::vector<std::vector<float>> attentionScratch_;
};

}  // namespace chairlift
