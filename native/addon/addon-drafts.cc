// MTP heads of models on the processor: what they predict, and whole drafts.

#include "addon/addon-sampler.h"
#include "addon/functions.h"
#include "addon/model-handle.h"
#include "addon/step-input.h"

#include <algorithm>

namespace chairlift {

namespace {

/** The input of a head's first round, of a row for each sequence; adds what must live meanwhile to `held`. */
StepInput readPredicted(napi_env env, napi_value handle, napi_value batch, std::vector<napi_value>& held) {
  if (!toModel(env, handle).predicts()) throw ScriptError("native addon: the model has no MTP head");
  StepInput input = readBatch(env, batch, false);
  readImages(env, batch, input, held);
  if (input.tokens.size() != input.starts.size()) throw ScriptError("native addon: predictions are made one row a sequence");
  return input;
}

/** predict(handle, batch, logits: Float32Array): Promise<void>; of the model's MTP head, a row for each sequence */
napi_value predict(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    const auto args = arguments(env, info, 3);
    std::vector<napi_value> held{args[0], args[2]};
    StepInput input = readPredicted(env, args[0], args[1], held);
    Handle& handle = toHandle(env, args[0]);
    const std::shared_ptr<Model> model = handle.model;
    const auto logits = toFloatArray(env, args[2], "logits");
    if (logits.length < input.tokens.size() * size_t(model->vocabSize())) {
      throw ScriptError("native addon: too little room for the results");
    }
    return runOffThread(env, handle, "chairlift.predict", held,
                        [model, input = std::move(input), to = logits.data] { model->predict(input, to); });
  });
}

Drafts::Wanted readWanted(napi_env env, napi_value rounds, napi_value job, napi_value leastLogprob, int vocabSize) {
  Drafts::Wanted wanted{toInt32Array(env, rounds, "rounds").copy(), readSamplingRows(env, job, vocabSize, 0),
                        toNumber(env, leastLogprob)};
  size_t total = 0;
  for (const int32_t count : wanted.rounds) {
    if (count < 1) throw ScriptError("native addon: a draft of no tokens");
    total += size_t(count);
  }
  if (wanted.rows.size() != total) throw ScriptError("native addon: drafts of broken lengths");
  return wanted;
}

/**
 * draft(handle, batch, rounds: Int32Array, job, leastLogprob, tokens: Int32Array, logprobs: Float32Array): Promise<void>; `job` is that
 * of sampleRows
 */
napi_value draft(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    const auto args = arguments(env, info, 7);
    std::vector<napi_value> held{args[0], args[3], args[5], args[6]};
    StepInput input = readPredicted(env, args[0], args[1], held);
    Handle& handle = toHandle(env, args[0]);
    const std::shared_ptr<Drafts> drafts = handle.drafts;
    Drafts::Wanted wanted = readWanted(env, args[2], args[3], args[4], handle.model->vocabSize());
    const auto tokens = toInt32Array(env, args[5], "tokens");
    const auto logprobs = toFloatArray(env, args[6], "logprobs");
    if (wanted.rounds.size() != input.starts.size() || std::min(tokens.length, logprobs.length) < wanted.rows.size()) {
      throw ScriptError("native addon: drafts of broken lengths");
    }
    return runOffThread(env, handle, "chairlift.draft", held,
                        [drafts, input = std::move(input), wanted = std::move(wanted), to = tokens.data, likely = logprobs.data] {
                          drafts->draft(input, wanted, {to, likely});
                        });
  });
}

}  // namespace

const std::vector<Function>& draftFunctions() {
  static const std::vector<Function> all = {{"predict", predict}, {"draft", draft}};
  return all;
}

}  // namespace chairlift
