// See router.h. Scores are doubles, so that hardly any two that differ become equal.

#include "layers/router.h"

#include <algorithm>
#include <limits>

#include "model/exponential.h"

namespace chairlift {

namespace {

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

/** The place of the highest, which can then not be taken again. Where none is a number the first that was not taken. */
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

/** Experts of other groups cannot be chosen. */
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

}  // namespace

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

}  // namespace chairlift
