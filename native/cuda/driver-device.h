// A GPU through NVIDIA's driver.
#pragma once

#include <vector>

#include "cuda/device.h"

namespace chairlift {
namespace cuda {

struct DeviceInfo {
  std::string name;
  // Ten times the compute capability: 75 is Turing, 90 is Hopper.
  int capability;
  size_t totalBytes;
};

/** The GPUs of this machine; throws where there is no driver. */
std::vector<DeviceInfo> listDevices();

/** What a program of its own can have of a GPU's memory now: less than all by what others have, and by what the driver takes. */
size_t freeBytesOf(int ordinal);

/** `image`: the kernels, as a cubin for this GPU or as PTX, which ends with a zero. */
std::unique_ptr<Device> openDevice(int ordinal, const void* image);

}  // namespace cuda
}  // namespace chairlift
