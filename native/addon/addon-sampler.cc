// See addon-sampler.h. src/compute/cpu/sample-rows.ts packs the arrays; here they are checked, so that no
// mistake there reads or writes outside them, and seen as rows. Sampling takes few milliseconds and runs
// on the caller's thread and those of the sampler's pool.

#include "addon/addon-sampler.h"

#include <algorithm>
#include <memory>

#include "addon/napi-values.h"

namespace chairlift {

namespace {

// Columns of the job's `reals` and `integers`, one row each per row of logits.
enum Real { temperature, topP, minP, typicalP, repetition, presence, frequency, uniform, realCount };
enum Integer { topK, alternatives, maskStart, given, integerCount };

/** Parts of a flat array, one per row. */
template <class T>
class Parts {
 public:
  Parts(TypedArray<int32_t> starts, TypedArray<T> values, size_t rows, const char* what)
      : starts_(starts.data), values_(values.data) {
    bool ordered = starts.length == rows + 1 && starts.data[0] == 0 && size_t(starts.data[rows]) == values.length;
    for (size_t row = 0; ordered && row < rows; row++) ordered = starts.data[row] <= starts.data[row + 1];
    if (!ordered) throw ScriptError(std::string("native addon: rows of broken lengths: ") + what);
  }

  Slice<T> at(size_t row) const { return {values_ + starts_[row], starts_[row + 1] - starts_[row]}; }

 private:
  const int32_t* starts_;
  const T* values_;
};

template <class Tokens>
void checkTokens(const Tokens& tokens, int vocabSize, const char* what) {
  bool strange = false;
  for (size_t i = 0; i < size_t(tokens.length); i++) strange |= uint32_t(tokens.data[i]) >= uint32_t(vocabSize);
  if (strange) throw ScriptError(std::string("native addon: no such token: ") + what);
}

std::vector<Slice<int32_t>> readLists(napi_env env, napi_value lists, size_t rows, const char* what) {
  std::vector<Slice<int32_t>> result;
  for (size_t row = 0; row < rows; row++) {
    napi_value element;
    check(napi_get_element(env, lists, uint32_t(row), &element), what);
    const auto list = toInt32Array(env, element, what);
    result.push_back({list.data, int(list.length)});
  }
  return result;
}

}  // namespace

std::vector<SamplingRow> readSamplingRows(napi_env env, napi_value job, int vocabSize, int stride) {
  const auto field = [&](const char* name) { return property(env, job, name); };
  const auto integersOf = [&](const char* name) { return toInt32Array(env, field(name), name); };
  const auto realsOf = [&](const char* name) {
    return toTypedArray<double>(env, field(name), napi_float64_array, name);
  };
  const auto reals = realsOf("reals");
  const auto integers = integersOf("integers");
  const size_t rows = integers.length / integerCount;
  if (integers.length != rows * integerCount || reals.length != rows * realCount) {
    throw ScriptError("native addon: rows of broken lengths: parameters");
  }
  const auto penalized = readLists(env, field("penalized"), rows, "penalized");
  const auto generated = readLists(env, field("generated"), rows, "generated");
  const auto biased = integersOf("biased"), forbidden = integersOf("forbidden");
  checkTokens(biased, vocabSize, "biased");
  checkTokens(forbidden, vocabSize, "forbidden");
  const auto biasStarts = integersOf("biasStarts");
  const Parts<int32_t> biasedOf(biasStarts, biased, rows, "biased");
  const Parts<double> biasesOf(biasStarts, realsOf("biases"), rows, "biases");
  const Parts<int32_t> forbiddenOf(integersOf("forbiddenStarts"), forbidden, rows, "forbidden");
  const auto masks = toTypedArray<uint32_t>(env, field("masks"), napi_uint32_array, "masks");

  std::vector<SamplingRow> result;
  for (size_t row = 0; row < rows; row++) {
    const double* real = reals.data + row * realCount;
    const int32_t* integer = integers.data + row * integerCount;
    const int32_t mask = integer[maskStart];
    if (mask >= 0 && size_t(mask) + (size_t(vocabSize) + 31) / 32 > masks.length) {
      throw ScriptError("native addon: a mask is too short");
    }
    checkTokens(penalized[row], vocabSize, "penalized");
    if (penalized[row].length != generated[row].length) {
      throw ScriptError("native addon: rows of broken lengths: penalized");
    }
    if (integer[topK] < 0 || integer[alternatives] > stride || integer[given] >= vocabSize) {
      throw ScriptError("native addon: sampling parameters out of range");
    }
    result.push_back({real[temperature], real[topP], real[minP], real[typicalP], real[repetition], real[presence],
                      real[frequency], real[uniform], integer[topK], integer[alternatives], penalized[row],
                      generated[row], biasedOf.at(row), biasesOf.at(row), forbiddenOf.at(row),
                      mask < 0 ? nullptr : masks.data + mask, integer[given]});
  }
  return result;
}

napi_value makeSampler(napi_env env, std::shared_ptr<ThreadPool> pool) {
  return toExternal(env, std::make_unique<Sampler>(std::move(pool)));
}

/** sampleRows(sampler, logits: Float32Array, vocabSize, job, result): fills the arrays of `result` */
napi_value sampleRows(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    const auto args = arguments(env, info, 5);
    void* sampler;
    check(napi_get_value_external(env, args[0], &sampler), "expected a sampler");
    const auto logits = toFloatArray(env, args[1], "logits");
    const int vocabSize = toInt(env, args[2]), stride = toInt(env, property(env, args[3], "stride"));
    if (vocabSize < 1 || stride < 0) throw ScriptError("native addon: sizes out of range");
    const auto rows = readSamplingRows(env, args[3], vocabSize, stride);
    const auto tokens = toInt32Array(env, property(env, args[4], "tokens"), "tokens");
    const auto logprobs = toFloatArray(env, property(env, args[4], "logprobs"), "logprobs");
    const auto ranks = toInt32Array(env, property(env, args[4], "ranks"), "ranks");
    const auto topCounts = toInt32Array(env, property(env, args[4], "topCounts"), "topCounts");
    const auto topTokens = toInt32Array(env, property(env, args[4], "topTokens"), "topTokens");
    const auto topLogprobs = toFloatArray(env, property(env, args[4], "topLogprobs"), "topLogprobs");
    if (logits.length < rows.size() * size_t(vocabSize)) throw ScriptError("native addon: too few logits");
    if (std::min({tokens.length, logprobs.length, ranks.length, topCounts.length}) < rows.size() ||
        std::min(topTokens.length, topLogprobs.length) < rows.size() * size_t(stride)) {
      throw ScriptError("native addon: too little room for the result");
    }
    std::vector<SampledRow> sampled(rows.size());
    static_cast<Sampler*>(sampler)->sample(logits.data, vocabSize, rows,
                                           {sampled.data(), topTokens.data, topLogprobs.data, stride});
    for (size_t row = 0; row < rows.size(); row++) {
      tokens.data[row] = sampled[row].token;
      logprobs.data[row] = sampled[row].logprob;
      ranks.data[row] = sampled[row].rank;
      topCounts.data[row] = sampled[row].alternatives;
    }
    return undefinedValue(env);
  });
}

}  // namespace chairlift
