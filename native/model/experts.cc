// See experts.h. The rows of one expert lie together, so that its weights are read once for all of them and those of
// experts that nobody chose not at all. What a row gets from an expert does not depend on the rows beside it.

#include "model/experts.h"

#include <algorithm>

namespace chairlift {

namespace {

/** Rows in the order of their experts: a row comes as often as it chose one. */
struct Assignment {
  std::vector<Choice> choices;
  // For each choice its place in that order.
  std::vector<int> slots;
  // For each place its row, and its factor on what the expert reads.
  std::vector<int32_t> rows;
  std::vector<float> factors;
  std::vector<RowRun> runs;
};

/** Looks at each row, and sorts by expert; of one expert by row. */
Assignment assign(const Experts& experts, const InputRows& input, Workspace& work) {
  const Router& router = experts.router;
  const int rows = work.batch.count();
  const size_t used = size_t(router.used), stride = paddedLength(router.experts);
  float* const logits = work.scores.rows(size_t(rows), stride);
  const InputRows seen = router.norm ? work.stream.behind(*router.norm) : input;
  work.multiplier.apply(router.linear, seen, rows, logits, stride);

  Assignment all;
  all.choices.resize(size_t(rows) * used);
  work.pool.forEachOne(rows, [&](int row) {
    choose(router, logits + size_t(row) * stride, &all.choices[size_t(row) * used]);
  });

  std::vector<int> next(size_t(router.experts) + 1);
  for (const Choice& choice : all.choices) next[size_t(choice.expert) + 1]++;
  for (int expert = 0; expert < router.experts; expert++) {
    const int count = next[size_t(expert) + 1];
    if (count > 0) all.runs.push_back({expert, next[size_t(expert)], count});
    next[size_t(expert) + 1] += next[size_t(expert)];
  }
  all.slots.resize(all.choices.size());
  all.rows.resize(all.choices.size());
  all.factors.resize(all.choices.size());
  for (size_t i = 0; i < all.choices.size(); i++) {
    const int slot = next[size_t(all.choices[i].expert)]++;
    all.slots[i] = slot;
    all.rows[size_t(slot)] = int32_t(i / used);
    all.factors[size_t(slot)] = all.choices[i].weight;
  }
  return all;
}

}  // namespace

void runExperts(const Experts& experts, const InputRows& input, Workspace& work, float* out) {
  const Assignment all = assign(experts, input, work);
  const size_t count = all.choices.size(), used = size_t(experts.router.used);
  const size_t innerStride = experts.each.projectedStride(), stride = work.stream.stride;
  float* const inner = work.inner.rows(count, innerStride);
  float* const given = work.gathered.rows(count, stride);

  InputRows gathered = input;
  gathered.places = all.rows.data();
  if (experts.scalesInput) gathered.factors = all.factors.data();
  work.multiplier.apply(experts.each.projection, gathered, all.runs, inner, innerStride);
  const InputRows activated = activatedRows(experts.each, inner, int(count), work);
  work.multiplier.apply(experts.each.down, activated, all.runs, given, stride);

  work.pool.forEachOne(work.batch.count(), [&](int row) {
    float* const to = out + size_t(row) * stride;
    std::fill(to, to + stride, 0.0f);
    for (size_t i = size_t(row) * used; i < (size_t(row) + 1) * used; i++) {
      const float weight = experts.scalesInput ? 1.0f : all.choices[i].weight;
      work.kernels.addScaled(to, given + size_t(all.slots[i]) * stride, weight, work.stream.size);
    }
  });
}

}  // namespace chairlift
