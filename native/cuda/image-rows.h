// Rows of images in the steps of a text model on the device: embeddings in place of tokens', what is added after layers, turns by three
// positions, and which rows see each other.
#pragma once

#include <vector>

#include "cuda/work.h"
#include "model/model.h"

namespace chairlift {
namespace cuda {

/** Rows of the step by sequence. */
std::vector<SequenceRows> allSequences(const StepInput& input);
/** Whether rows turn by other positions than their own. */
bool turnsOtherwise(const StepInput& input);

class ImageRowsOfStep {
 public:
  /** Throws where the model has layers that cannot read images on a device. */
  ImageRowsOfStep(const ModelParts& parts, Work& work);

  /** Whether a step has rows of images, or rows that see what comes after them in theirs. */
  bool isIn(const StepInput& input) const { return !input.images.rows.empty() || seesAhead(input); }
  StepSequences sequencesOf(const StepInput& input) const;

  /** Uploads what a step has of images; `positions` are three for each row, on the device, or null. */
  void beginStep(const StepInput& input, const int32_t* positions);
  void turn();
  void embed();
  bool addsAfter(size_t layer) const { return count_ > 0 && layer < layers_; }
  void addAfter(size_t layer);

 private:
  bool seesAhead(const StepInput& input) const;
  void set(size_t set, bool adds);

  const ModelParts& parts_;
  Work& work_;
  // Whether layers let rows of an image see each other.
  bool isBothWays_ = false;
  // By rope: of each pair the position that it turns by; empty where all turn by the first.
  std::vector<DeviceMemory> axes_;
  std::vector<Growing> turns_;
  // Rows of images in this step, and for how many layers something is added.
  int count_ = 0;
  size_t layers_ = 0;
  // Embeddings, then what is added.
  Growing rows_, values_;
};

}  // namespace cuda
}  // namespace chairlift
