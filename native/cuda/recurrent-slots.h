// Slots of recurrent states on the device, and the tables that say which of them a step reads and writes.
#pragma once

#include <vector>

#include "cuda/work.h"
#include "model/recurrent-states.h"

namespace chairlift {
namespace cuda {

class RecurrentSlots {
 public:
  RecurrentSlots(const std::vector<StateLayout>& layouts, int slots, Work& work);

  /** Uploads the tables of a step of `rows` rows and `sequences` sequences, with those that pad it. */
  void beginStep(const StepInput& input, int rows, int sequences);

 private:
  Work& work_;
  DeviceMemory slots_;
  Growing tables_;
  std::vector<int32_t> words_;
};

}  // namespace cuda
}  // namespace chairlift
