// A model on the device, and the step that advances a batch of sequences: see Model in model/model.h for the processor's.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

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

  /** As Model::step. */
  void step(const StepInput& input, float* logits, float* states);
  /** Samples in place of downloading logits: what was found of the rows is written to `found`. */
  void stepAndSample(const StepInput& input, const SamplingInput& sampling, uint32_t* found, float* states);
  /** Whether `stepAndSample` can be called. */
  bool canSample() const { return sampler_.fits(); }
  /** Logits of the last step, by their place among its `logitRows`. */
  void readLogits(const std::vector<int32_t>& rows, float* to);

  /** Runs a step kernel by kernel and times each, by name. */
  std::map<std::string, KernelTime> profile(const StepInput& input);

  /** Blocks that have memory: those below this number. */
  int blockCapacity() const { return capacity_; }
  /** Commits memory for at least `needed` blocks and releases that of more than `most`; returns the capacity. */
  int fitBlocks(int needed, int most);

 private:
  /** What makes steps alike: numbers of rows, padded, and what is sampled. */
  struct Shape {
    int rows, logitRows, stateRows;
    // See SamplingInput; -1 where nothing is sampled.
    int lists;

    bool operator<(const Shape& other) const {
      return std::tie(rows, logitRows, stateRows, lists) <
             std::tie(other.rows, other.logitRows, other.stateRows, other.lists);
    }
  };
  struct Recorded {
    std::unique_ptr<Graph> graph;
    uint64_t generation;
  };

  void noteNorm(const Norm& norm) { readsStream_[size_t(norm.kind)] = true; }
  Shape shapeOf(const StepInput& input, const SamplingInput* sampling) const;
  /** Launches a step, sampling with it where that is wanted. */
  void run(const StepInput& input, const SamplingInput* sampling);
  void prepare(const StepInput& input, const SamplingInput* sampling, const Shape& shape);
  void launchStep(const Shape& shape);
  void embed();
  void launchBranch(const Branch& branch);
  void launchHead(const Shape& shape);

  const std::unique_ptr<Device> device_;
  const std::unique_ptr<DeviceWeights> weights_;
  const ModelParts parts_;
  const int blockCount_;
  bool readsStream_[2] = {};
  Work work_;
  uint8_t* kv_ = nullptr;
  size_t kvStride_ = 0, kvBytes_ = 0, committedBytes_ = 0;
  int capacity_ = 0;
  std::vector<int32_t> words_;
  Growing tables_, logits_, states_;
  DeviceSampler sampler_;
  // In the tables: see SampleArgs.
  const int32_t* samplingJobs_ = nullptr;
  int lastLogitRows_ = 0;
  std::map<Shape, Recorded> graphs_;
};

}  // namespace cuda
}  // namespace chairlift
