// See layers/moe.h. All that depends on choices is made on the device: a step launches for as many tiles as there can be.

#include "layers/moe.h"

#include <algorithm>

#include "cuda/layers/mlp.h"
#include "cuda/layers/registry.h"

namespace chairlift {
namespace cuda {

namespace {

// More would take memory, and hardly be faster.
constexpr int expertRowsAtOnce = 2048;
constexpr int mostSortThreads = 512;
// More rows of a router are multiplied as those of any matrix.
constexpr int mostScoredRows = 64;
constexpr int scoreThreads = 128;
constexpr int choiceWarps = 4;
constexpr int mixThreads = 64;

/** Logits of a router, as sums over segments of its inputs. */
struct Scores {
  float* sums;
  size_t stride;
  int segments;
  // Not in the sums yet; may be null.
  const float* bias;
};

bool isScored(const Router& router, const Input& seen, Work& work) {
  if (work.rows > mostScoredRows || router.linear.parts.size() != 1 || work.adapters.useAny(router.linear.additions)) return false;
  const Encoding encoding = Encoding(work.weights.matrix(*router.linear.parts[0].matrix).encoding);
  const bool isFloat = encoding == Encoding::F32 || encoding == Encoding::F16 || encoding == Encoding::BF16;
  return isFloat && (seen.form == InputForm::Plain || seen.form == InputForm::Normalized);
}

Scores scoreExperts(const Router& router, const Input& seen, Work& work) {
  const size_t stride = paddedLength(router.experts);
  if (!isScored(router, seen, work)) {
    float* const logits = work.scratch("scores", stride);
    work.multiplier.apply(router.linear, seen, work.rows, logits, stride);
    return {logits, stride, 1, nullptr};
  }
  const Linear::Part& part = router.linear.parts[0];
  ScoreExpertsArgs args{};
  args.matrix = work.weights.matrix(*part.matrix);
  const int segments = (args.matrix.inputs + inputsOfSegment - 1) / inputsOfSegment;
  args.x = seen.x;
  args.stride = int64_t(seen.stride);
  args.scales = seen.scales;
  if (seen.norm) {
    args.weight = work.weights.vector(seen.norm->weight);
    args.bias = work.weights.vector(seen.norm->bias);
  }
  args.rows = work.rows;
  args.sums = work.scratch("scores", stride * size_t(segments));
  args.sumStride = int64_t(stride);
  static const char* const names[] = {"f32", "f16", "bf16"};
  static const size_t bytes[] = {4, 2, 2};
  const int rows = work.rows == 1 ? 1 : rowsOfTile, encoding = args.matrix.encoding;
  const size_t shared = inputsOfSegment * panelOutputs * bytes[encoding] + size_t(rows) * (inputsOfSegment + 4) * sizeof(float);
  const std::string kernel = "score_experts" + std::to_string(rows) + "_" + names[encoding];
  work.device.launch(kernel.c_str(), {args.matrix.panels * segments, (work.rows + rows - 1) / rows, scoreThreads, shared}, args);
  return {args.sums, stride, segments, work.weights.vector(part.bias)};
}

ChooseExpertsArgs choiceOf(const Router& router, const Scores& scores, Work& work) {
  const size_t count = size_t(work.rows) * size_t(router.used);
  ChooseExpertsArgs args{};
  args.sums = scores.sums;
  args.stride = int64_t(scores.stride);
  args.rows = work.rows;
  args.segments = scores.segments;
  args.bias = scores.bias;
  args.experts = router.experts;
  args.used = router.used;
  args.isSigmoid = router.isSigmoid;
  args.isNormalized = router.normalized;
  if (router.groups) {
    args.groups = router.groups->count;
    args.usedGroups = router.groups->used;
    args.byBestTwo = router.groups->byBestTwo;
  }
  args.routingBias = work.weights.vector(router.routingBias);
  args.expertScales = work.weights.vector(router.expertScales);
  args.scale = router.scale;
  args.chosen = work.scratchOf<int32_t>("chosen", count);
  args.weights = work.scratchOf<float>("choiceWeights", count);
  const size_t experts = size_t(args.experts), groups = size_t(args.groups), sums = scores.stride * size_t(scores.segments);
  args.bytesOfWarp = int32_t(roundUp(sums * sizeof(float) + (2 * experts + groups) * sizeof(double) + experts + groups, 16));
  return args;
}

/** Room for the choices of some rows by expert. */
SortChoicesArgs sortedChoices(const ChooseExpertsArgs& choice, int firstRow, int rows, int mostTiles, Work& work) {
  const size_t count = size_t(rows) * size_t(choice.used), before = size_t(firstRow) * size_t(choice.used);
  SortChoicesArgs args{};
  args.chosen = choice.chosen + before;
  args.weights = choice.weights + before;
  args.blocks = work.tables.blocks;
  args.firstRow = firstRow;
  args.rows = rows;
  args.experts = choice.experts;
  args.used = choice.used;
  args.slots = work.scratchOf<int32_t>("slots", count);
  args.places = work.scratchOf<int32_t>("places", count);
  args.factors = work.scratchOf<float>("factors", count);
  args.tiles = work.scratchOf<Tile>("tiles", size_t(mostTiles));
  args.tileCount = work.scratchOf<int32_t>("tileCount", 1);
  return args;
}

void sortChoices(const SortChoicesArgs& args, Work& work) {
  const size_t experts = size_t(args.experts), count = size_t(args.rows) * size_t(args.used);
  const auto sharedBytes = [&](int threads) { return (size_t(threads) / 32 * experts + 2 * experts + 1) * sizeof(int32_t); };
  int threads = std::min(mostSortThreads, int(roundUp(count, 32)));
  while (threads > 32 && sharedBytes(threads) > work.device.sharedBytes()) threads -= 32;
  work.device.launch("sort_choices", {1, 1, threads, sharedBytes(threads)}, args);
}

/** Runs the experts of sorted choices and sums what they give, or leaves the sum to what finishes the part. */
class Experts {
 public:
  Experts(const Moe& moe, const Input& input, Work& work, float* out) : moe_(moe), input_(input), work_(work), out_(out) {}

  void run(const SortChoicesArgs& sorted, const RowTiles& tiles) {
    const Mlp& each = moe_.each;
    const int count = sorted.rows * sorted.used;
    const size_t innerStride = each.projectedStride(), stride = work_.stream.stride;
    float* const inner = work_.scratch("expertInner", size_t(count), innerStride);
    float* const given = work_.scratch("given", size_t(count), stride);
    if (tiles.shareInput) {
      const InputView view = work_.multiplier.makeInput(each.projection, input_, work_.rows, {}, false);
      work_.multiplier.multiply(each.projection, view, count, inner, innerStride, tiles);
    } else {
      Input gathered = input_;
      gathered.places = sorted.places;
      if (moe_.scalesInput) gathered.factors = sorted.factors;
      work_.multiplier.apply(each.projection, gathered, count, inner, innerStride, tiles);
    }
    Input activated = activatedInput(each, inner, count, work_);
    activated.owners = sorted.places;
    work_.multiplier.apply(each.down, activated, count, given, stride, {tiles.tiles, tiles.count, tiles.most});
    mix(sorted, given);
  }

 private:
  void mix(const SortChoicesArgs& sorted, const float* given) {
    const Mixture mixture{given, sorted.slots, moe_.scalesInput ? nullptr : sorted.weights, sorted.used};
    if (work_.leavesMixture && sorted.rows == work_.rows) {
      work_.mixture = mixture;
      return;
    }
    const int64_t stride = int64_t(work_.stream.stride);
    const MixExpertsArgs args{mixture, stride, work_.stream.size, out_ + sorted.firstRow * stride};
    constexpr int columns = 4 * mixThreads;
    work_.device.launch("mix_experts", {sorted.rows, (args.size + columns - 1) / columns, mixThreads, 0}, args);
  }

  const Moe& moe_;
  const Input& input_;
  Work& work_;
  float* const out_;
};

/** Whether the rows of a step are one tile, which all experts can read as it is. */
bool areOneTile(const Moe& moe, const Work& work) {
  const Linear& linear = moe.each.projection;
  return work.rows <= rowsOfTile && !moe.scalesInput && linear.readsCodes() && !linear.readsValues() &&
         !work.adapters.useAny(linear.additions);
}

}  // namespace

void launch(const Moe& moe, const Input& input, Work& work, float* out) {
  const Router& router = moe.router;
  const Scores scores = scoreExperts(router, router.norm ? work.stream.normalized(*router.norm) : input, work);
  const ChooseExpertsArgs choice = choiceOf(router, scores, work);
  Experts experts(moe, input, work, out);
  const int all = work.rows * router.used;
  const size_t routeBytes = size_t(work.rows) * size_t(choice.bytesOfWarp) + size_t(all) * 3 * sizeof(int32_t);
  if (areOneTile(moe, work) && routeBytes <= work.device.sharedBytes()) {
    const int mostTiles = std::min(router.experts, all);
    const RouteFewArgs args{choice, sortedChoices(choice, 0, work.rows, mostTiles, work)};
    work.device.launch("route_few", {1, 1, work.rows * 32, routeBytes}, args);
    experts.run(args.sorted, {args.sorted.tiles, args.sorted.tileCount, mostTiles, true});
    return;
  }
  const int blocks = (work.rows + choiceWarps - 1) / choiceWarps;
  work.device.launch("choose_experts", {blocks, 1, choiceWarps * 32, choiceWarps * size_t(choice.bytesOfWarp)}, choice);
  for (int firstRow = 0; firstRow < work.rows; firstRow += expertRowsAtOnce) {
    const int rows = std::min(expertRowsAtOnce, work.rows - firstRow), count = rows * router.used;
    // Every expert may have one tile that is not full.
    const int mostTiles = (count + (rowsOfTile - 1) * std::min(router.experts, count)) / rowsOfTile;
    const SortChoicesArgs sorted = sortedChoices(choice, firstRow, rows, mostTiles, work);
    sortChoices(sorted, work);
    experts.run(sorted, {sorted.tiles, sorted.tileCount, mostTiles});
  }
}

}  // namespace cuda
}  // namespace chairlift
