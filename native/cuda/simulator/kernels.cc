// The kernels, compiled for the simulator.

#include "cuda/kernels/kernels.cu"
