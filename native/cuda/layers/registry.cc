// See registry.h: a line for each kind.

#include "cuda/layers/registry.h"

#include <stdexcept>

#include "layers/attention.h"
#include "layers/gated-delta-net.h"
#include "layers/laurel.h"
#include "layers/mamba2.h"
#include "layers/mla.h"
#include "layers/mlp.h"
#include "layers/moe.h"
#include "layers/per-layer-inputs.h"
#include "layers/short-conv.h"

namespace chairlift {
namespace cuda {

// clang-format off
#define CHAIRLIFT_CUDA_BODIES(each) \
  each(Attention) \
  each(GatedDeltaNet) \
  each(Laurel) \
  each(Mamba2) \
  each(Mla) \
  each(Mlp) \
  each(Moe) \
  each(PerLayerInput) \
  each(ShortConv)
// clang-format on

#define CHAIRLIFT_DECLARATION(Kind) void launch(const Kind& body, const Input& input, Work& work, float* out);
CHAIRLIFT_CUDA_BODIES(CHAIRLIFT_DECLARATION)
#undef CHAIRLIFT_DECLARATION

void launchBody(const Body& body, const Input& input, Work& work, float* out) {
#define CHAIRLIFT_LAUNCH(Kind) \
  if (const auto* own = dynamic_cast<const Kind*>(&body)) return launch(*own, input, work, out);
  CHAIRLIFT_CUDA_BODIES(CHAIRLIFT_LAUNCH)
#undef CHAIRLIFT_LAUNCH
  throw std::runtime_error("a kind of layer without CUDA kernels");
}

}  // namespace cuda
}  // namespace chairlift
