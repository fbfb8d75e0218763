// Device memory that grows to the largest step.
#pragma once

#include "cuda/device.h"

namespace chairlift {
namespace cuda {

class Work;

class Growing {
 public:
  /** New memory is zero. */
  DeviceMemory& room(Work& work, size_t bytes);

  template <class T>
  T* as() const {
    return memory_.as<T>();
  }

 private:
  DeviceMemory memory_;
};

}  // namespace cuda
}  // namespace chairlift
