// Recurrent states of sequences, in slots; a slot has room for all recurrent layers of the model.
#pragma once

#include <cstdint>
#include <vector>

#include "model/row-buffer.h"
#include "system/reserved-memory.h"

namespace chairlift {

/** The channels of the last tokens, the oldest first; then a matrix for each head. */
struct StateLayout {
  int channels = 0;
  // Of the convolution, which keeps the last `taps - 1` tokens.
  int taps = 1;
  int heads = 0;
  int rows = 0;
  int columns = 0;

  int waitingRows() const { return taps - 1; }
  size_t channelStride() const { return paddedLength(channels); }
  size_t columnStride() const { return roundUp16(size_t(columns)); }
  size_t matricesAt() const { return size_t(waitingRows()) * channelStride(); }
  size_t matrixAt(int head) const { return matricesAt() + size_t(head) * size_t(rows) * columnStride(); }
  size_t size() const { return matrixAt(heads); }
};

class RecurrentStates {
 public:
  RecurrentStates(const std::vector<StateLayout>& layouts, int slots);

  int slots() const { return slots_; }
  /** Of the states in a slot, without the rest of its last page. */
  size_t contentBytes() const { return contentBytes_; }
  /** Null for slot -1. */
  float* at(int slot, int state) const {
    return slot < 0 ? nullptr : (float*)memory_.data() + size_t(slot) * stride_ + starts_[size_t(state)];
  }

 private:
  const int slots_;
  std::vector<size_t> starts_;
  size_t stride_;
  size_t contentBytes_ = 0;
  ReservedMemory memory_;
};

}  // namespace chairlift
