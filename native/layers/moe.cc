// See moe.h. The rows of one expert lie together, so that its weights are read once for all of them and those of
// experts that nobody chose not at all. What a row gets from an expert does not depend on the rows beside it.

#include "layers/moe.h"

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

// What experts make of more rows at a time would take memory, and hardly be faster.
constexpr int rowsAtOnce = 512;

/** One mixture over the rows of a step. */
class ExpertsRun {
 public:
  ExpertsRun(const Experts& experts, const InputRows& input, Workspace& work, float* out)
      : experts_(experts),
        input_(input),
        work_(work),
        out_(out),
        used_(size_t(experts.router.used)),
        logitStride_(paddedLength(experts.router.experts)),
        logits_(work.scores.rows(size_t(work.batch.count()), logitStride_)) {}

  void run() {
    const Router& router = experts_.router;
    const int rows = work_.batch.count();
    const InputRows seen = router.norm ? work_.stream.behind(*router.norm) : input_;
    work_.multiplier.apply(router.linear, seen, rows, logits_, logitStride_);
    for (int first = 0; first < rows; first += rowsAtOnce) mix(first, std::min(rowsAtOnce, rows - first));
  }

 private:
  void mix(int firstRow, int rows) {
    const Assignment all = assign(firstRow, rows);
    const Mlp& each = experts_.each;
    const size_t innerStride = each.projectedStride(), stride = work_.stream.stride;
    float* const inner = work_.inner.rows(all.choices.size(), innerStride);
    float* const given = work_.gathered.rows(all.choices.size(), stride);

    InputRows gathered = input_;
    gathered.places = all.rows.data();
    if (experts_.scalesInput) gathered.factors = all.factors.data();
    work_.multiplier.apply(each.projection, gathered, all.runs, inner, innerStride);
    InputRows activated = activatedRows(each, inner, int(all.choices.size()), work_);
    activated.owners = all.rows.data();
    work_.multiplier.apply(each.down, activated, all.runs, given, stride);

    work_.pool.forEachOne(rows, [&](int row) {
      float* const to = out_ + size_t(firstRow + row) * stride;
      std::fill(to, to + stride, 0.0f);
      for (size_t i = size_t(row) * used_; i < (size_t(row) + 1) * used_; i++) {
        const float weight = experts_.scalesInput ? 1.0f : all.choices[i].weight;
        work_.kernels.addScaled(to, given + size_t(all.slots[i]) * stride, weight, work_.stream.size);
      }
    });
  }

  /** Chooses for each row, and sorts by expert; of one expert by row. */
  Assignment assign(int firstRow, int rows) const {
    const int experts = experts_.router.experts;
    Assignment all;
    all.choices.resize(size_t(rows) * used_);
    work_.pool.forEachOne(rows, [&](int row) {
      choose(experts_.router, logits_ + size_t(firstRow + row) * logitStride_, &all.choices[size_t(row) * used_]);
    });

    // Counts behind each expert, then where its rows begin, then where the next of them goes.
    std::vector<int> next(size_t(experts) + 1);
    for (const Choice& choice : all.choices) next[size_t(choice.expert) + 1]++;
    for (int expert = 0; expert < experts; expert++) {
      const int count = next[size_t(expert) + 1];
      if (count > 0) all.runs.push_back({expert, next[size_t(expert)], count});
      next[size_t(expert) + 1] += next[size_t(expert)];
    }
    all.slots.resize(all.choices.size());
    all.rows.resize(all.choices.size());
    all.factors.resize(all.choices.size());
    for (size_t i = 0; i < all.choices.size(); i++) {
      const size_t slot = size_t(next[size_t(all.choices[i].expert)]++);
      all.slots[i] = int(slot);
      all.rows[slot] = int32_t(firstRow) + int32_t(i / used_);
      all.factors[slot] = all.choices[i].weight;
    }
    return all;
  }

  const Experts& experts_;
  const InputRows& input_;
  Workspace& work_;
  float* const out_;
  const size_t used_;
  const size_t logitStride_;
  float* const logits_;
};

}  // namespace

void runMoe(const Experts& experts, const InputRows& input, Workspace& work, float* out) {
  ExpertsRun(experts, input, work, out).run();
}

}  // namespace chairlift
