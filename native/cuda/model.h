// A model on the device, and the step that advances a batch of sequences: see Model in model/model.h for the processor's.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "cuda/adapters.h"
#include "cuda/image-rows.h"
#include "cuda/layers/altup.h"
#include "cuda/recurrent-slots.h"
#include "cuda/sampling.h"
#include "cuda/work.h"
#include "model/model.h"

namespace chairlift {
namespace cuda {

class CudaModel {
 public:
  CudaModel(std::unique_ptr<Device> device, std::unique_ptr<DeviceWeights> weights, ModelParts parts, int blockCount, int stateSlots);
  ~CudaModel();

  int hiddenSize() const { return parts_.hiddenSize; }
  int vocabSize() const { return parts_.vocabSize; }
  int blockCount() const { return blockCount_; }
  bool isRecurrent() const { return !parts_.recurrentStates.empty(); }
  Device& device() { return *device_; }
  DeviceWeights& weights() { return *weights_; }

  /** As Model::step. */
  void step(const StepInput& input, float* logits, float* states);
  /** Starts a step that samples in place of downloading logits: what was found of the rows is in `found` after `finish`. */
  void start(const StepInput& input, const SamplingInput& sampling, uint32_t* found, float* states);
  void finish() { device_->wait(); }
  bool isFinished() { return device_->isIdle(); }
  /** Whether `start` only replays what is recorded, which takes some 50 µs. */
  bool isRecorded(const StepInput& input, const SamplingInput& sampling);
  /**
   * While a step is under way: uploads all that the one after it needs but its tokens, which that one gives. False where it is
   * not recorded. It holds until another step is started.
   */
  bool prepareNext(const StepInput& input, const SamplingInput& sampling);
  /** Words of that one's results. */
  size_t preparedWords() const { return prepared_ ? SamplingInput::foundWords(prepared_->logitRows, prepared_->lists) : 0; }
  /** Starts it, as `start`. */
  void startPrepared(const std::vector<int32_t>& tokens, uint32_t* found);
  /** Whether the GPU can sample. */
  bool canSample() const { return sampler_.fits(); }
  /** Logits of the last step, by their place among its `logitRows`. */
  void readLogits(const std::vector<int32_t>& rows, float* to);

  /** Runs a step kernel by kernel and times each, by name. */
  std::map<std::string, KernelTime> profile(const StepInput& input);

  /** Blocks that have memory: those below this number. */
  int blockCapacity() const { return capacity_; }
  /** Commits memory for `needed` blocks, or as many as there is memory for, and releases that of more than `most`; returns the capacity. */
  int fitBlocks(int needed, int most);
  /** Both have memory. */
  void moveBlock(int from, int to);

  /** As Model's, in the same layout. The block has memory. */
  int stateSlots() const { return stateSlots_; }
  size_t blockBytes() const { return parts_.kv.contentBytes(); }
  size_t stateBytes() const { return recurrentSlots_.contentBytes(); }
  void readBlock(int block, uint8_t* to);
  void writeBlock(int block, const uint8_t* from);
  void readState(int slot, uint8_t* to) { recurrentSlots_.read(slot, to); }
  void writeState(int slot, const uint8_t* from) { recurrentSlots_.write(slot, from); }

 private:
  /**
   * What makes steps alike: numbers of rows, and of sequences with recurrent states, padded; what attention has to do; the one
   * adapter in use, or -1; what is sampled (see SamplingInput), or -1; turns.
   */
  struct Shape {
    int rows, logitRows, stateRows;
    int fewSegments, fewRows;
    bool hasMany;
    int sequences, adapter, lists;
    // Whether rows turn by other positions than their own.
    bool isTurned;

    bool operator<(const Shape& other) const {
      return std::tie(rows, logitRows, stateRows, fewSegments, fewRows, hasMany, sequences, adapter, lists, isTurned) <
             std::tie(other.rows, other.logitRows, other.stateRows, other.fewSegments, other.fewRows, other.hasMany,
                      other.sequences, other.adapter, other.lists, other.isTurned);
    }
  };
  struct Recorded {
    std::unique_ptr<Graph> graph;
    uint64_t generation;
  };
  struct Prepared {
    Graph* graph;
    size_t tokens;
    int logitRows, lists;
  };

  bool commitPage();
  void noteNorm(const Norm& norm) { readsStream_[size_t(norm.kind)] = true; }
  void noteNorms(const Part& part);
  Shape shapeOf(const StepInput& input, const SamplingInput* sampling) const;
  /** Whether steps like this one are replayed. */
  bool canRecord(const StepInput& input, const Shape& shape) const;
  /** Launches a step, sampling with it where that is wanted. */
  void run(const StepInput& input, const SamplingInput* sampling);
  void prepare(const StepInput& input, const SamplingInput* sampling, const Shape& shape);
  void launchStep(const Shape& shape);
  void embed();
  void embedAdapted();
  void launchEmbedding(const EmbedArgs& args);
  /** The norm of the input that is read next after a branch, where its codes can be made with the stream; or null. */
  const Norm* normAfter(size_t layer, size_t branch) const;
  void launchLayer(size_t index);
  void launchBranch(const Branch& branch, const Norm* next);
  void launchHead(const Shape& shape);

  const std::unique_ptr<Device> device_;
  const std::unique_ptr<DeviceWeights> weights_;
  const ModelParts parts_;
  const int blockCount_, stateSlots_;
  bool readsStream_[2] = {};
  Work work_;
  RecurrentSlots recurrentSlots_;
  AdapterTable adapterTable_;
  ImageRowsOfStep imageRows_;
  uint8_t* kv_ = nullptr;
  size_t kvStride_ = 0, kvBytes_ = 0, committedBytes_ = 0;
  int capacity_ = 0;
  std::vector<int32_t> words_;
  Growing tables_, logits_, states_;
  // While a step is launched.
  std::optional<DeviceAltUp> altUp_;
  DeviceSampler sampler_;
  // In the tables: see SampleArgs.
  const int32_t* samplingJobs_ = nullptr;
  int lastLogitRows_ = 0;
  std::map<Shape, Recorded> graphs_;
  std::optional<Prepared> prepared_;
};

}  // namespace cuda
}  // namespace chairlift
