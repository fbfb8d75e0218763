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

  /** Of the states in a slot, laid out as the processor's. */
  size_t contentBytes() const { return contentBytes_; }
  void read(int slot, uint8_t* to);
  void write(int slot, const uint8_t* from);

  /** Uploads the tables of a step of `rows` rows and `sequences` sequences, with those that pad it. */
  void beginStep(const StepInput& input, int rows, int sequences);

 private:
  /** The place of a state in a slot on the device, and in its content. */
  struct Piece {
    size_t at, contentAt, bytes;
  };
  uint8_t* place(int slot, const Piece& piece) const {
    return slots_.as<uint8_t>() + size_t(slot) * work_.states.slotStride * sizeof(float) + piece.at;
  }

  Work& work_;
  std::vector<Piece> pieces_;
  size_t contentBytes_ = 0;
  DeviceMemory slots_;
  Growing tables_;
  std::vector<int32_t> words_;
};

}  // namespace cuda
}  // namespace chairlift
