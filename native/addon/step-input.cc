// See step-input.h.

#include "addon/step-input.h"

namespace chairlift {

void readImages(napi_env env, napi_value batch, StepInput& input, std::vector<napi_value>& held) {
  if (const auto positions = maybeProperty(env, batch, "rotaryPositions")) {
    input.rotaryPositions = toInt32Array(env, *positions, "rotaryPositions").copy();
  }
  if (const auto ends = maybeProperty(env, batch, "imageEnds")) {
    input.imageEnds = toInt32Array(env, *ends, "imageEnds").copy();
  }
  const auto images = maybeProperty(env, batch, "images");
  if (!images) return;
  const auto values = [&](napi_value from) {
    held.push_back(from);
    return toFloatArray(env, from, "images").data;
  };
  input.images.rows = toInt32Array(env, property(env, *images, "rows"), "rows").copy();
  input.images.embeddings = values(property(env, *images, "embeddings"));
  for (napi_value layer : elementsOf(env, property(env, *images, "deepstack"))) {
    input.images.deepstack.push_back(values(layer));
  }
}

StepInput readBatch(napi_env env, napi_value batch, bool isRecurrent) {
  const auto integers = [&](napi_value of, const char* name) {
    return toInt32Array(env, property(env, of, name), name).copy();
  };
  StepInput input;
  input.tokens = integers(batch, "tokens");
  input.rowStarts = integers(batch, "rowStarts");
  input.starts = integers(batch, "starts");
  input.blocks = integers(batch, "blocks");
  input.blockStarts = integers(batch, "blockStarts");
  input.logitRows = integers(batch, "logitRows");
  input.stateRows = integers(batch, "stateRows");
  input.adapters = integers(batch, "adapters");
  if (!isRecurrent) return input;
  const napi_value states = property(env, batch, "recurrentStates");
  input.recurrentFrom = integers(states, "from");
  input.recurrentStarts = integers(states, "starts");
  input.recurrentRows = integers(states, "rows");
  input.recurrentSlots = integers(states, "slots");
  return input;
}

}  // namespace chairlift
