// The kernels of models that see, compiled for the simulator.

#include "cuda/kernels/vision.cu"
