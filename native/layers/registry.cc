// The kinds of layers, a line each.

#include "layers/registry.h"

namespace chairlift {

// clang-format off
#define CHAIRLIFT_BODIES(each) \
  each("attention", readAttention) \
  each("gated-delta-net", readGatedDeltaNet) \
  each("laurel", readLaurel) \
  each("mamba2", readMamba2) \
  each("mla", readMla) \
  each("mlp", readMlp) \
  each("moe", readMoe) \
  each("per-layer-input", readPerLayerInput) \
  each("short-conv", readShortConv)
// clang-format on

#define CHAIRLIFT_DECLARATION(kind, read) ReadBody read;
CHAIRLIFT_BODIES(CHAIRLIFT_DECLARATION)
#undef CHAIRLIFT_DECLARATION

std::unique_ptr<Body> readBody(const Record& from, Reader& reader) {
  const std::string& kind = from.text("kind");
#define CHAIRLIFT_READ(name, read) \
  if (kind == name) return read(from, reader);
  CHAIRLIFT_BODIES(CHAIRLIFT_READ)
#undef CHAIRLIFT_READ
  require(false, "unknown kind of layer: " + kind);
  return nullptr;
}

}  // namespace chairlift
