// The sixteen values of the non-linear 4-bit formats (IQ4_NL, IQ4_XS).
#pragma once

#include <cstdint>

namespace {

constexpr int8_t codebook[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

}  // namespace
