// See moe.h.

#include "layers/moe.h"

#include <algorithm>
#include <limits>

#include "layers/registry.h"
#include "model/exponential.h"

namespace chairlift {

namespace {

struct Choice {
  int expert;
  float weight;
};

// Doubles, so that hardly any two scores that differ become equal.
using Scores = std::vector<double>;

constexpr double never = -std::numeric_limits<double>::infinity();

Scores scoresOf(const Router& router, const float* logits) {
  Scores scores(logits, logits + router.experts);
  if (router.isSigmoid) {
    for (double& score : scores) score = sigmoid(score);
    return scores;
  }
  const double largest = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (double& score : scores) sum += score = exponential(score - largest);
  for (double& score : scores) score /= sum;
  return scores;
}

/** The index of the highest score that is not taken; the first of them where all are NaN. */
int takeBest(Scores& scores, std::vector<bool>& taken) {
  int best = -1;
  for (int i = 0; i < int(scores.size()); i++) {
    if (taken[size_t(i)]) continue;
    if (best < 0 || scores[size_t(i)] > scores[size_t(best)]) best = i;
  }
  taken[size_t(best)] = true;
  return best;
}

double bestTwo(const double* scores, int count) {
  double first = never, second = never;
  for (int i = 0; i < count; i++) {
    if (scores[i] > first) {
      second = first;
      first = scores[i];
    } else if (scores[i] > second) {
      second = scores[i];
    }
  }
  return count > 1 ? first + second : first;
}

void keepBestGroups(const ExpertGroups& groups, Scores& scores) {
  const int size = int(scores.size()) / groups.count;
  Scores ofGroups(size_t(groups.count));
  for (int group = 0; group < groups.count; group++) {
    const double* own = &scores[size_t(group * size)];
    ofGroups[size_t(group)] = groups.byBestTwo ? bestTwo(own, size) : *std::max_element(own, own + size);
  }
  std::vector<bool> kept(size_t(groups.count));
  for (int i = 0; i < groups.used; i++) takeBest(ofGroups, kept);
  for (size_t i = 0; i < scores.size(); i++) {
    if (!kept[i / size_t(size)]) scores[i] = never;
  }
}

/** Writes the `used` choices of a row, the best first; ties go to the lower expert. */
void choose(const Router& router, const float* logits, Choice* choices) {
  const Scores scores = scoresOf(router, logits);
  Scores wanted = scores;
  for (size_t i = 0; i < router.routingBias.size(); i++) wanted[i] += double(router.routingBias[i]);
  if (router.groups) keepBestGroups(*router.groups, wanted);
  std::vector<bool> taken(scores.size());
  double sum = 0;
  for (int i = 0; i < router.used; i++) {
    choices[i].expert = takeBest(wanted, taken);
    sum += scores[size_t(choices[i].expert)];
  }
  const double scale = router.scale / (router.normalized ? sum : 1);
  for (int i = 0; i < router.used; i++) {
    const size_t expert = size_t(choices[i].expert);
    const double own = router.expertScales.empty() ? 1 : double(router.expertScales[expert]);
    choices[i].weight = float(scores[expert] * scale * own);
  }
}

/** Rows in the order of their experts; a row appears once for each of its choices. */
struct Assignment {
  std::vector<Choice> choices;
  // The place of each choice in that order.
  std::vector<int> slots;
  // The row and the weight at each place.
  std::vector<int32_t> rows;
  std::vector<float> factors;
  std::vector<RowRun> runs;
};

// More would take memory, and hardly be faster.
constexpr int rowsAtOnce = 512;

class MoeRun {
 public:
  MoeRun(const Moe& moe, const InputRows& input, Workspace& work, float* out)
      : moe_(moe),
        input_(input),
        work_(work),
        out_(out),
        used_(size_t(moe.router.used)),
        logitStride_(paddedLength(moe.router.experts)),
        logits_(work.scores.rows(size_t(work.batch.count()), logitStride_)) {}

  void run() {
    const Router& router = moe_.router;
    const int rows = work_.batch.count();
    const InputRows seen = router.norm ? work_.stream.normalized(*router.norm) : input_;
    work_.multiplier.apply(router.linear, seen, rows, logits_, logitStride_);
    for (int first = 0; first < rows; first += rowsAtOnce) mix(first, std::min(rowsAtOnce, rows - first));
  }

 private:
  void mix(int firstRow, int rows) {
    const Assignment all = assign(firstRow, rows);
    const Mlp& each = moe_.each;
    const size_t innerStride = each.projectedStride(), stride = work_.stream.stride;
    float* const inner = work_.inner.rows(all.choices.size(), innerStride);
    float* const given = work_.gathered.rows(all.choices.size(), stride);

    InputRows gathered = input_;
    gathered.places = all.rows.data();
    if (moe_.scalesInput) gathered.factors = all.factors.data();
    multiplyMlp(each, gathered, all.runs, inner, all.rows.data(), work_, given, stride);

    work_.pool.forEachOne("mix experts", rows, [&](int row) {
      float* const to = out_ + size_t(firstRow + row) * stride;
      std::fill(to, to + stride, 0.0f);
      for (size_t i = size_t(row) * used_; i < (size_t(row) + 1) * used_; i++) {
        const float weight = moe_.scalesInput ? 1.0f : all.choices[i].weight;
        work_.kernels.addScaled(to, given + size_t(all.slots[i]) * stride, weight, work_.stream.size);
      }
    });
  }

  /** Chooses for each row, and sorts by expert, then by row. */
  Assignment assign(int firstRow, int rows) const {
    const int experts = moe_.router.experts;
    Assignment all;
    all.choices.resize(size_t(rows) * used_);
    work_.pool.forEachOne("choose experts", rows, [&](int row) {
      choose(moe_.router, logits_ + size_t(firstRow + row) * logitStride_, &all.choices[size_t(row) * used_]);
    });

    // A counting sort: counts per expert, then first places, then next places.
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

  const Moe& moe_;
  const InputRows& input_;
  Workspace& work_;
  float* const out_;
  const size_t used_;
  const size_t logitStride_;
  float* const logits_;
};

Router readRouter(const Record& from, const Reader& reader, int experts) {
  const int hidden = reader.model.hiddenSize;
  Router read;
  read.experts = experts;
  read.used = from.integer("used");
  require(read.used > 0 && read.used <= experts, "more experts used than there are");
  read.linear = reader.linear(from.object("linear"), experts, hidden);
  read.isSigmoid = from.text("score") == "sigmoid";
  read.routingBias = from.maybeFloats("routingBias", size_t(experts));
  if (const Record* groups = from.maybe("groups")) {
    const ExpertGroups own{groups->integer("count"), groups->integer("used"), groups->text("by") == "best-two"};
    require(own.count > 0 && experts % own.count == 0, "groups of unequal size");
    require(own.used > 0 && own.used <= own.count && own.used * (experts / own.count) >= read.used,
            "groups with too few experts");
    read.groups = own;
  }
  read.normalized = from.flag("normalized");
  read.scale = from.number("scale");
  read.expertScales = from.maybeFloats("expertScales", size_t(experts));
  read.norm = maybeNorm(from, "norm", hidden);
  return read;
}

}  // namespace

void Moe::run(const InputRows& input, Workspace& work, float* out) const { MoeRun(*this, input, work, out).run(); }

std::unique_ptr<Body> readMoe(const Record& from, Reader& reader) {
  const Record::List& experts = from.list("experts");
  require(!experts.empty(), "no experts");
  const int count = int(experts.size());
  auto body = std::make_unique<Moe>();
  body->router = readRouter(from.object("router"), reader, count);
  // The matrices of the first have a member for each expert.
  body->each = readMlp(experts[0], reader, count);
  require(!body->each.gated, "experts with a shared expert gate");
  body->scalesInput = from.flag("scalesInput");
  return body;
}

}  // namespace chairlift
