// What a view's program lists, on the device: places, taps, turns and groups, in one piece of memory.
#pragma once

#include "cuda/device.h"
#include "tower/program.h"

namespace chairlift {
namespace cuda {

class ViewLists {
 public:
  struct Groups {
    const int32_t* order;
    const int32_t* places;
    // Of each row the block and the token of it, as one number.
    const int32_t* tokens;
  };
  struct TapLists {
    const int32_t* starts;
    const int32_t* rows;
    const float* weights;
  };

  ViewLists(Device& device, const TowerProgram& program);

  const float* values() const { return at<float>(values_); }
  const float* rotation(int index) const { return index < 0 ? nullptr : at<float>(rotations_[size_t(index)]); }
  Groups groups(int index) const;
  /** Of an operation that has some. */
  TapLists taps(int operation) const;
  const int32_t* sources(int operation) const { return at<int32_t>(operations_[size_t(operation)]); }
  /** As many numbers from 0 on as there are blocks of keys and values. */
  const int32_t* blocks() const { return at<int32_t>(blocks_); }

 private:
  template <class T>
  size_t add(std::vector<uint32_t>& words, const std::vector<T>& list);
  template <class T>
  const T* at(size_t word) const {
    return reinterpret_cast<const T*>(memory_.as<uint32_t>() + word);
  }

  const TowerProgram& program_;
  size_t values_ = 0, blocks_ = 0;
  std::vector<size_t> rotations_, groups_, operations_;
  DeviceMemory memory_;
};

}  // namespace cuda
}  // namespace chairlift
