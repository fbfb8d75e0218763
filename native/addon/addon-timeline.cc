// Records what a model's threads do, for whoever wants to see where a step's time goes.

#include <algorithm>
#include <map>

#include "addon/functions.h"
#include "addon/model-handle.h"

namespace chairlift {

namespace {

// A bound on the memory that is taken for each thread.
constexpr int mostRecorded = 1 << 24;

/** Microseconds. */
double toScript(int64_t nanoseconds) { return double(nanoseconds) / 1000; }

/** Texts by number, each once. */
class Texts {
 public:
  double numberOf(const std::string& text) {
    const auto [place, isNew] = numbers_.try_emplace(text, numbers_.size());
    if (isNew) all_.push_back(text);
    return double(place->second);
  }
  const std::vector<std::string>& all() const { return all_; }

 private:
  std::map<std::string, size_t> numbers_;
  std::vector<std::string> all_;
};

std::vector<double> loopsOf(const Timeline& timeline, Texts& texts) {
  std::vector<double> numbers;
  for (const auto& [name, time] : timeline.loops()) {
    numbers.insert(numbers.end(), {texts.numberOf(name.operation), texts.numberOf(name.subject), double(name.bytes),
                                   toScript(time.begin), toScript(time.end)});
  }
  return numbers;
}

std::vector<double> stepsOf(const Timeline& timeline) {
  std::vector<double> numbers;
  for (const auto& [begin, end] : timeline.steps()) numbers.insert(numbers.end(), {toScript(begin), toScript(end)});
  return numbers;
}

std::vector<double> piecesOf(const Timeline& timeline, int thread) {
  std::vector<double> numbers;
  for (const auto& [loop, time] : timeline.pieces(thread)) {
    numbers.insert(numbers.end(), {double(loop), toScript(time.begin), toScript(time.end)});
  }
  return numbers;
}

/** startTimeline(handle, loops, pieces): room for `loops` loops and `pieces` pieces of each thread */
napi_value startTimeline(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    const auto args = arguments(env, info, 3);
    Handle& handle = toHandle(env, args[0]);
    const int loops = toInt(env, args[1]), pieces = toInt(env, args[2]);
    if (std::min(loops, pieces) < 1 || std::max(loops, pieces) > mostRecorded) {
      throw ScriptError("native addon: room for no or too many loops");
    }
    handle.pool->startTimeline(size_t(loops), size_t(pieces));
    return undefinedValue(env);
  });
}

/** takeTimeline(handle): what was recorded since; see NativeTimeline in src/compute/cpu/binding.ts */
napi_value takeTimeline(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    Handle& handle = toHandle(env, arguments(env, info, 1)[0]);
    const std::unique_ptr<Timeline> timeline = handle.pool->takeTimeline();
    if (!timeline) throw ScriptError("native addon: no timeline was started");
    Texts texts;
    const napi_value loops = fromNumbers(env, loopsOf(*timeline, texts));
    std::vector<napi_value> names, pieces;
    for (const std::string& text : texts.all()) names.push_back(fromText(env, text));
    for (int thread = 0; thread < timeline->threads(); thread++) {
      pieces.push_back(fromNumbers(env, piecesOf(*timeline, thread)));
    }
    napi_value result;
    check(napi_create_object(env, &result), "cannot make an object");
    const auto set = [&](const char* name, napi_value value) {
      check(napi_set_named_property(env, result, name, value), name);
    };
    set("texts", fromList(env, names));
    set("loops", loops);
    set("steps", fromNumbers(env, stepsOf(*timeline)));
    set("pieces", fromList(env, pieces));
    set("dropped", fromNumber(env, double(timeline->dropped())));
    return result;
  });
}

}  // namespace

const std::vector<Function>& timelineFunctions() {
  static const std::vector<Function> all = {
      {"startTimeline", startTimeline},
      {"takeTimeline", takeTimeline},
  };
  return all;
}

}  // namespace chairlift
