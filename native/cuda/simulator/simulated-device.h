// See simulated-device.cc.
#pragma once

#include "cuda/device.h"

namespace chairlift {
namespace cuda {

std::unique_ptr<Device> simulatedDevice();

}  // namespace cuda
}  // namespace chairlift
