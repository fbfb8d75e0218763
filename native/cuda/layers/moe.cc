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

struct ExpertChoices {
  int32_t* chosen;
  float* weights;
};

ExpertChoices chooseExperts(const Router& router, const Input& seen, Work& work) {
  const size_t stride = paddedLength(router.experts), count = size_t(work.rows) * size_t(router.used);
  float* const logits = work.scratch("scores", stride);
  work.multiplier.apply(router.linear, seen, work.rows, logits, stride);
  ChooseExpertsArgs args{};
  args.logits = logits;
  args.stride = int64_t(stride);
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
  const size_t experts = size_t(args.experts), groups = size_t(args.groups);
  const size_t shared = (2 * experts + groups) * sizeof(double) + experts + groups;
  const int threads = std::min(256, int(roundUp(experts, 32)));
  work.device.launch("choose_experts", {work.rows, 1, threads, shared}, args);
  return {args.chosen, args.weights};
}

SortChoicesArgs sortChoices(const Router& router, const ExpertChoices& choices, int firstRow, int rows, int mostTiles, Work& work) {
  const size_t count = size_t(rows) * size_t(router.used), experts = size_t(router.experts);
  const size_t before = size_t(firstRow) * size_t(router.used);
  SortChoicesArgs args{};
  args.chosen = choices.chosen + before;
  args.weights = choices.weights + before;
  args.blocks = work.tables.blocks;
  args.firstRow = firstRow;
  args.rows = rows;
  args.experts = router.experts;
  args.used = router.used;
  args.slots = work.scratchOf<int32_t>("slots", count);
  args.places = work.scratchOf<int32_t>("places", count);
  args.factors = work.scratchOf<float>("factors", count);
  args.tiles = work.scratchOf<Tile>("tiles", size_t(mostTiles));
  args.tileCount = work.scratchOf<int32_t>("tileCount", 1);
  const auto sharedBytes = [&](int threads) { return (size_t(threads) / 32 * experts + 2 * experts + 1) * sizeof(int32_t); };
  int threads = std::min(mostSortThreads, int(roundUp(count, 32)));
  while (threads > 32 && sharedBytes(threads) > work.device.sharedBytes()) threads -= 32;
  work.device.launch("sort_choices", {1, 1, threads, sharedBytes(threads)}, args);
  return args;
}

}  // namespace

void launch(const Moe& moe, const Input& input, Work& work, float* out) {
  const Router& router = moe.router;
  const Mlp& each = moe.each;
  const ExpertChoices choices = chooseExperts(router, router.norm ? work.stream.normalized(*router.norm) : input, work);
  const size_t innerStride = each.projectedStride(), stride = work.stream.stride;
  for (int firstRow = 0; firstRow < work.rows; firstRow += expertRowsAtOnce) {
    const int rows = std::min(expertRowsAtOnce, work.rows - firstRow), count = rows * router.used;
    // Every expert may have one tile that is not full.
    const int mostTiles = (count + (rowsOfTile - 1) * std::min(router.experts, count)) / rowsOfTile;
    const SortChoicesArgs sorted = sortChoices(router, choices, firstRow, rows, mostTiles, work);
    const RowTiles tiles{sorted.tiles, sorted.tileCount, mostTiles};
    float* const inner = work.scratch("expertInner", size_t(count), innerStride);
    float* const given = work.scratch("given", size_t(count), stride);

    Input gathered = input;
    gathered.places = sorted.places;
    if (moe.scalesInput) gathered.factors = sorted.factors;
    work.multiplier.apply(each.projection, gathered, count, inner, innerStride, tiles);
    Input activated = activatedInput(each, inner, count, work);
    activated.owners = sorted.places;
    work.multiplier.apply(each.down, activated, count, given, stride, tiles);

    MixExpertsArgs mix{};
    mix.given = given;
    mix.stride = int64_t(stride);
    mix.slots = sorted.slots;
    mix.weights = moe.scalesInput ? nullptr : sorted.weights;
    mix.used = router.used;
    mix.size = work.stream.size;
    mix.out = out + size_t(firstRow) * stride;
    work.device.launch("mix_experts", {rows, 1, 256, 0}, mix);
  }
}

}  // namespace cuda
}  // namespace chairlift
