// Sampling on the device, after a step's logits: see src/compute/device-sampling for what goes in and what comes out.
#pragma once

#include <cstdint>
#include <vector>

#include "cuda/work.h"

namespace chairlift {
namespace cuda {

/** Jobs of a step's rows in words. */
struct SamplingInput {
  std::vector<uint32_t> words;
  // Rows that have jobs.
  int rows = 0;
  // How many jobs of a row list candidates: none, the first or both.
  int lists = 0;

  /** Of its results. */
  size_t foundWords() const { return foundWords(rows, lists); }
  static size_t foundWords(int rows, int lists);
};

class DeviceSampler {
 public:
  DeviceSampler(Work& work, int vocabSize) : work_(work), vocabSize_(vocabSize) {}

  /** Whether a block has room for its piece of the vocabulary. */
  bool fits() const;
  /** Makes room for the results, so that launches of one shape keep their addresses. */
  void prepare(int rows, int lists);
  /** `rows` are those of the padded step; `jobs` is that of SampleArgs. */
  void launch(const float* logits, int rows, int lists, const int32_t* jobs);
  /** What was found; valid after `wait`. */
  void download(uint32_t* found, int rows, int lists);

 private:
  Work& work_;
  const int vocabSize_;
  Growing states_, found_;
};

/**
 * Samples rows of any logits without a model, for tests and benchmarks: writes what was found, and returns the seconds that one of
 * `repeats` further repetitions takes; 0 where there are none.
 */
double probeSampling(Device& device, const std::vector<float>& logits, int vocabSize, const SamplingInput& input, int repeats,
                     uint32_t* found);

}  // namespace cuda
}  // namespace chairlift
