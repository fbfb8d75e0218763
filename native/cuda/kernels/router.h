// A mixture's router: scores of experts, and their choice. See layers/moe.cc. Include after products-floats.h.
#pragma once

#include "cuda/kernels/layer-args.h"
#include "model/exponential.h"

namespace {

constexpr int noExpert = 0x7fffffff;

/** Four values of an input row of the router. */
CHAIRLIFT_DEVICE Four routedFour(const ScoreExpertsArgs& args, int64_t row, int first) {
  const Four x = readFour(args.x + row * args.stride + first, true);
  return args.weight ? normalizedFour(x, args.scales[row], args.weight, args.bias, first) : x;
}

/**
 * Scores of few rows: a block has one segment of a panel's inputs, and leaves its sums. It reads the weights while kernels before
 * end. Blocks: x are segments of panels, y are tiles. Shared memory: the weights of the segment, then its inputs by row.
 */
template <int encoding, int rows>
CHAIRLIFT_DEVICE void scoreExperts(const ScoreExpertsArgs& args) {
  using Format = FloatFormat<encoding>;
  constexpr int weightBytes = inputsOfSegment * Format::rowBytes;
  // Padded, so that rows lie in different banks.
  constexpr int inputStride = inputsOfSegment + 4;
  startNext();
  const MatrixView& matrix = args.matrix;
  const int segments = (matrix.inputs + inputsOfSegment - 1) / inputsOfSegment;
  const int segment = blockX() % segments, panel = blockX() / segments, firstRow = blockY() * rowsOfTile;
  const int first = segment * inputsOfSegment, left = matrix.inputs - first;
  const int count = left < inputsOfSegment ? left : inputsOfSegment;
  const uint8_t* const from = matrix.codes + panel * matrix.codeStride + int64_t(first) * Format::rowBytes;
  float* const inputs = (float*)(sharedMemory() + weightBytes);
  for (int at = threadIndex() * 16; at < count * Format::rowBytes; at += threadCount() * 16) {
    copyToShared(sharedMemory() + at, from + at);
  }
  commitCopies();
  waitForPrevious();
  const int rowsLeft = args.rows - firstRow;
#pragma unroll
  for (int r = 0; r < rows; r++) {
    if (r >= rowsLeft) continue;
    for (int i = threadIndex() * 4; i < count; i += threadCount() * 4) {
      const Four own = routedFour(args, firstRow + r, first + i);
      *(Floats4*)(inputs + r * inputStride + i) = {own.of[0], own.of[1], own.of[2], own.of[3]};
    }
  }
  waitForCopies<0>();
  syncBlock();
  const int row = threadIndex() / panelOutputs, column = threadIndex() % panelOutputs;
  if (row >= rows || row >= rowsLeft) return;
  const uint8_t* const weights = sharedMemory() + column * Format::bytes;
  const float* const own = inputs + row * inputStride;
  float sum = 0;
  const int whole = count / 4 * 4;
#pragma unroll 8
  for (int k = 0; k < whole; k += 4) {
    const Floats4 x = *(const Floats4*)(own + k);
    const uint8_t* const at = weights + k * Format::rowBytes;
    sum = fusedMultiplyAdd(x.x, readOne<encoding>(at), sum);
    sum = fusedMultiplyAdd(x.y, readOne<encoding>(at + Format::rowBytes), sum);
    sum = fusedMultiplyAdd(x.z, readOne<encoding>(at + 2 * Format::rowBytes), sum);
    sum = fusedMultiplyAdd(x.w, readOne<encoding>(at + 3 * Format::rowBytes), sum);
  }
  for (int k = whole; k < count; k++) sum = fusedMultiplyAdd(own[k], readOne<encoding>(weights + k * Format::rowBytes), sum);
  const int output = panel * panelOutputs + column;
  if (output < matrix.outputs) args.sums[(int64_t(firstRow + row) * segments + segment) * args.sumStride + output] = sum;
}

CHAIRLIFT_DEVICE bool isNan(double value) { return value != value; }
CHAIRLIFT_DEVICE double negativeInfinity() { return double(-INFINITY); }

CHAIRLIFT_CONSTANT double reciprocals[] = {1.0,     1.0 / 1,  1.0 / 2,  1.0 / 3,  1.0 / 4,  1.0 / 5,  1.0 / 6, 1.0 / 7,
                                           1.0 / 8, 1.0 / 9,  1.0 / 10, 1.0 / 11, 1.0 / 12, 1.0 / 13, 1.0 / 14};

/** Divides by a whole number up to 14 with multiplications alone: remainders are exact, so that the second correction rounds right. */
struct ReciprocalDivision {
  CHAIRLIFT_METHOD double operator()(double a, int i) const { return quotient(a, i, reciprocals[i]); }
  /** a / by, where `reciprocal` is that of `by`, rounded, and no remainder is below the normal numbers. */
  static CHAIRLIFT_METHOD double quotient(double a, double by, double reciprocal) {
    double found = a * reciprocal;
    found = fusedMultiplyAdd(fusedMultiplyAdd(-by, found, a), reciprocal, found);
    return fusedMultiplyAdd(fusedMultiplyAdd(-by, found, a), reciprocal, found);
  }
};

/**
 * The index of the highest score that is not taken, by one warp; ties go to the lower index. As on the processor, where the first
 * that is not taken is NaN, it is that one: no score is higher.
 */
CHAIRLIFT_DEVICE int takeBest(const double* scores, uint8_t* taken, int count) {
  const int lane = threadIndex() % 32;
  int best = noExpert, first = noExpert;
  double highest = 0;
  for (int i = lane; i < count; i += 32) {
    if (taken[i]) continue;
    if (first == noExpert) first = i;
    const double score = scores[i];
    if (!isNan(score) && (best == noExpert || score > highest)) best = i, highest = score;
  }
  for (int half = 16; half > 0; half /= 2) {
    const int otherFirst = shuffleXor(first, half), other = shuffleXor(best, half);
    const double score = shuffleXor(highest, half);
    if (otherFirst < first) first = otherFirst;
    if (other == noExpert) continue;
    if (best == noExpert || score > highest || (score == highest && other < best)) best = other, highest = score;
  }
  if (isNan(scores[first])) best = first;
  syncWarp();
  if (lane == 0) taken[best] = 1;
  syncWarp();
  return best;
}

CHAIRLIFT_DEVICE double bestOfGroup(const double* scores, int count, bool byBestTwo) {
  double first = byBestTwo ? negativeInfinity() : scores[0], second = negativeInfinity();
  for (int i = 0; i < count; i++) {
    if (scores[i] > first) {
      second = first;
      first = scores[i];
    } else if (scores[i] > second) {
      second = scores[i];
    }
  }
  return byBestTwo && count > 1 ? first + second : first;
}

// Remainders of smaller scores might be below the normal numbers.
constexpr double leastExact = 1e-200;
// Experts whose scores a lane computes side by side.
constexpr int expertsAtOnce = 4;

/** The logits of a row by one warp: the sums of segments in order, and the bias. They are left in place of the first segment. */
CHAIRLIFT_DEVICE void joinScores(const ChooseExpertsArgs& args, int row, float* sums) {
  const int lane = threadIndex() % 32, all = args.segments * int(args.stride);
  const float* const from = args.sums + int64_t(row) * all;
  for (int i = lane * 4; i < all; i += 32 * 4) copyToShared(sums + i, from + i);
  commitCopies();
  waitForCopies<0>();
  syncWarp();
  for (int i = lane; i < args.experts; i += 32) {
    float sum = sums[i];
    for (int segment = 1; segment < args.segments; segment++) sum = sum + sums[segment * args.stride + i];
    sums[i] = args.bias ? sum + args.bias[i] : sum;
  }
  syncWarp();
}

/** The largest logit of a row; a first one of NaN stays the largest. */
CHAIRLIFT_DEVICE float largestLogit(const float* logits, int count) {
  float largest = logits[0];
  for (int i = threadIndex() % 32; i < count; i += 32) {
    if (largest < logits[i]) largest = logits[i];
  }
  for (int half = 16; half > 0; half /= 2) {
    const float other = shuffleXor(largest, half);
    if (largest < other) largest = other;
  }
  return largest;
}

/** Sigmoids or a softmax of logits, by one warp. */
CHAIRLIFT_DEVICE void scoresOfLogits(const float* logits, double* scores, int count, bool isSigmoid) {
  const int lane = threadIndex() % 32;
  const double largest = isSigmoid ? 0.0 : double(largestLogit(logits, count));
#pragma unroll 1
  for (int first = lane; first < count; first += 32 * expertsAtOnce) {
    double values[expertsAtOnce];
#pragma unroll
    for (int i = 0; i < expertsAtOnce; i++) {
      const double logit = double(logits[first + 32 * i < count ? first + 32 * i : first]);
      values[i] = isSigmoid ? -logit : logit - largest;
    }
    chairlift::exponentials(values, ReciprocalDivision{});
#pragma unroll
    for (int i = 0; i < expertsAtOnce; i++) {
      if (first + 32 * i < count) scores[first + 32 * i] = values[i];
    }
  }
  syncWarp();
  double sum = 1;
  if (!isSigmoid) {
    sum = 0;
#pragma unroll 16
    for (int i = 0; i < count; i++) sum = sum + scores[i];
    syncWarp();
  }
  const double reciprocal = 1.0 / sum;
#pragma unroll 1
  for (int i = lane; i < count; i += 32) {
    const double score = scores[i];
    const bool isExact = !isSigmoid && score > leastExact;
    if (isExact) scores[i] = ReciprocalDivision::quotient(score, sum, reciprocal);
    else scores[i] = isSigmoid ? 1 / (1 + score) : score / sum;
  }
  syncWarp();
}

/** Keeps the experts of the best groups, by one warp. */
CHAIRLIFT_DEVICE void keepBestGroups(const ChooseExpertsArgs& args, double* wanted, double* ofGroups, uint8_t* kept) {
  const int lane = threadIndex() % 32, size = args.experts / args.groups;
  for (int i = lane; i < args.groups; i += 32) {
    ofGroups[i] = bestOfGroup(wanted + i * size, size, args.byBestTwo);
    kept[i] = 0;
  }
  syncWarp();
  for (int i = 0; i < args.usedGroups; i++) takeBest(ofGroups, kept, args.groups);
  for (int i = lane; i < args.experts; i += 32) {
    if (!kept[i / size]) wanted[i] = negativeInfinity();
  }
  syncWarp();
}

/** Orders doubles that are numbers as whole numbers above 0. */
CHAIRLIFT_DEVICE uint64_t placeOfScore(double score) {
  // Zeros are equal.
  const double canonical = score + 0.0;
  uint64_t bits;
  memcpy(&bits, &canonical, sizeof bits);
  return bits >> 63 ? ~bits : bits | uint64_t(1) << 63;
}

/** The expert with the highest place of those that lanes have, the lowest of several. */
CHAIRLIFT_DEVICE int bestOfWarp(uint64_t place, int expert) {
  const uint32_t upper = largestOfWarp(uint32_t(place >> 32));
  const uint32_t lower = largestOfWarp(uint32_t(place >> 32) == upper ? uint32_t(place) : 0u);
  const bool isBest = place == (uint64_t(upper) << 32 | lower);
  return int(~largestOfWarp(isBest ? ~uint32_t(expert) : 0u));
}

/** Chooses by one warp; `chose(i, expert)` is called by all lanes. Scores that are wanted are not needed afterwards. */
template <class Chose>
CHAIRLIFT_DEVICE void takeBestOf(double* wanted, uint8_t* taken, int count, int used, const Chose& chose) {
  const int lane = threadIndex() % 32;
  bool hasNan = false;
  for (int i = lane; i < count; i += 32) hasNan = hasNan || isNan(wanted[i]);
  const bool isSlow = chairlift::cuda::ballot(hasNan) != 0;
  // Experts that are taken have place 0.
  uint64_t* const places = (uint64_t*)wanted;
  for (int i = lane; !isSlow && i < count; i += 32) places[i] = placeOfScore(wanted[i]);
  // The best of this lane's, the first of them where several are.
  uint64_t best = 0;
  int own = noExpert;
  bool isOld = true;
#pragma unroll 1
  for (int i = 0; i < used; i++) {
    if (isSlow) {
      chose(i, takeBest(wanted, taken, count));
      continue;
    }
    if (isOld) {
      best = 0;
      for (int k = lane; k < count; k += 32) {
        if (places[k] > best) best = places[k], own = k;
      }
    }
    const int expert = bestOfWarp(best, own);
    isOld = own == expert;
    if (isOld) places[expert] = 0;
    chose(i, expert);
  }
}

/** What a warp needs of shared memory to choose. */
struct ChoiceMemory {
  float* sums;
  double* scores;
  double* wanted;
  double* ofGroups;
  uint8_t* taken;

  CHAIRLIFT_METHOD ChoiceMemory(const ChooseExpertsArgs& args, uint8_t* at) {
    sums = (float*)at;
    scores = (double*)(sums + args.segments * args.stride);
    wanted = scores + args.experts;
    ofGroups = wanted + args.experts;
    taken = (uint8_t*)(ofGroups + args.groups);
  }
};

/**
 * The experts of a row in registers of one warp, four of a lane: expert `lane` and every 32nd after it. The same steps as
 * `chooseOfRow` in shared memory, without a loop over experts but for their sum.
 */
class ExpertsOfLane {
 public:
  static constexpr int each = 4, most = 32 * each;

  CHAIRLIFT_METHOD ExpertsOfLane(const ChooseExpertsArgs& args, int row, const ChoiceMemory& at)
      : args_(args), at_(at), lane_(threadIndex() % 32) {
    const float* const from = args.sums + int64_t(row) * args.segments * args.stride;
    float logits[each];
#pragma unroll
    for (int i = 0; i < each; i++) logits[i] = from[expertAt(i)];
#pragma unroll 4
    for (int segment = 1; segment < args.segments; segment++) {
#pragma unroll
      for (int i = 0; i < each; i++) logits[i] = logits[i] + from[segment * args.stride + expertAt(i)];
    }
#pragma unroll
    for (int i = 0; i < each; i++) {
      if (args.bias) logits[i] = logits[i] + args.bias[expertAt(i)];
    }
    const double largest = args.isSigmoid ? 0.0 : double(largestOf(logits));
#pragma unroll
    for (int i = 0; i < each; i++) {
      scores_[i] = !has(i) ? 0.0 : args.isSigmoid ? -double(logits[i]) : double(logits[i]) - largest;
    }
    chairlift::exponentials(scores_, ReciprocalDivision{});
    if (args.isSigmoid) {
#pragma unroll
      for (int i = 0; i < each; i++) scores_[i] = 1 / (1 + scores_[i]);
    } else {
      divideBySum();
    }
    store(at.scores, scores_);
  }

  /** Calls `chose(i, expert)` with all lanes. */
  template <class Chose>
  CHAIRLIFT_METHOD void choose(const Chose& chose) {
    double wanted[each];
    bool hasNan = false;
#pragma unroll
    for (int i = 0; i < each; i++) {
      wanted[i] = args_.routingBias && has(i) ? scores_[i] + double(args_.routingBias[expertAt(i)]) : scores_[i];
      hasNan = hasNan || (has(i) && isNan(wanted[i]));
    }
    if (chairlift::cuda::ballot(hasNan) != 0) {
      store(at_.wanted, wanted);
      for (int i = lane_; i < args_.experts; i += 32) at_.taken[i] = 0;
      syncWarp();
      for (int i = 0; i < args_.used; i++) chose(i, takeBest(at_.wanted, at_.taken, args_.experts));
      return;
    }
    uint64_t places[each];
#pragma unroll
    for (int i = 0; i < each; i++) places[i] = has(i) ? placeOfScore(wanted[i]) : 0;
#pragma unroll 1
    for (int i = 0; i < args_.used; i++) {
      uint64_t best = places[0];
      int own = lane_;
#pragma unroll
      for (int k = 1; k < each; k++) {
        if (places[k] > best) best = places[k], own = lane_ + 32 * k;
      }
      const int expert = bestOfWarp(best, own);
#pragma unroll
      for (int k = 0; k < each; k++) {
        if (expert == lane_ + 32 * k) places[k] = 0;
      }
      chose(i, expert);
    }
  }

 private:
  CHAIRLIFT_METHOD bool has(int i) const { return lane_ + 32 * i < args_.experts; }
  CHAIRLIFT_METHOD int expertAt(int i) const { return has(i) ? lane_ + 32 * i : 0; }
  CHAIRLIFT_METHOD void store(double* to, const double (&values)[each]) const {
#pragma unroll
    for (int i = 0; i < each; i++) {
      if (has(i)) to[lane_ + 32 * i] = values[i];
    }
    syncWarp();
  }

  /** A first logit of NaN stays the largest. */
  CHAIRLIFT_METHOD float largestOf(const float (&logits)[each]) const {
    float largest = shuffle(logits[0], 0);
#pragma unroll
    for (int i = 0; i < each; i++) {
      if (has(i) && largest < logits[i]) largest = logits[i];
    }
    for (int half = 16; half > 0; half /= 2) {
      const float other = shuffleXor(largest, half);
      if (largest < other) largest = other;
    }
    return largest;
  }

  CHAIRLIFT_METHOD void divideBySum() {
    store(at_.scores, scores_);
    double sum = 0;
#pragma unroll 16
    for (int i = 0; i < args_.experts; i++) sum = sum + at_.scores[i];
    syncWarp();
    const double reciprocal = 1.0 / sum;
    bool isExact = true;
#pragma unroll
    for (int i = 0; i < each; i++) isExact = isExact && (!has(i) || scores_[i] > leastExact);
#pragma unroll
    for (int i = 0; i < each; i++) {
      scores_[i] = isExact ? ReciprocalDivision::quotient(scores_[i], sum, reciprocal) : scores_[i] / sum;
    }
  }

  const ChooseExpertsArgs& args_;
  const ChoiceMemory& at_;
  const int lane_;
  double scores_[each];
};

/** Writes the choices of a row, by one warp. */
CHAIRLIFT_DEVICE void chooseOfRow(const ChooseExpertsArgs& args, int row, const ChoiceMemory& at, int32_t* chosen, float* weights) {
  const int lane = threadIndex() % 32, count = args.experts;
  double sum = 0;
  const auto chose = [&](int i, int expert) {
    sum = sum + at.scores[expert];
    if (lane == 0) chosen[i] = expert;
  };
  if (count <= ExpertsOfLane::most && args.groups == 0) {
    ExpertsOfLane(args, row, at).choose(chose);
  } else {
    joinScores(args, row, at.sums);
    scoresOfLogits(at.sums, at.scores, count, args.isSigmoid);
    for (int i = lane; i < count; i += 32) {
      at.wanted[i] = args.routingBias ? at.scores[i] + double(args.routingBias[i]) : at.scores[i];
      at.taken[i] = 0;
    }
    syncWarp();
    if (args.groups > 0) keepBestGroups(args, at.wanted, at.ofGroups, at.taken + count);
    takeBestOf(at.wanted, at.taken, count, args.used, chose);
  }
  syncWarp();
  const double scale = args.scale / (args.isNormalized ? sum : 1.0);
  for (int i = lane; i < args.used; i += 32) {
    const int expert = chosen[i];
    const double own = args.expertScales ? double(args.expertScales[expert]) : 1.0;
    weights[i] = float(at.scores[expert] * scale * own);
  }
}

/** A warp has one row. Shared memory: what each warp needs. */
CHAIRLIFT_DEVICE void chooseExperts(const ChooseExpertsArgs& args) {
  startNext();
  waitForPrevious();
  const int warp = threadIndex() / 32, row = blockX() * (threadCount() / 32) + warp;
  if (row >= args.rows) return;
  const int64_t first = int64_t(row) * args.used;
  chooseOfRow(args, row, ChoiceMemory(args, sharedMemory() + warp * args.bytesOfWarp), args.chosen + first, args.weights + first);
}

/**
 * Chooses the experts of up to eight rows and lists them by expert, in one block with a warp for each row. Every tile is the rows
 * that chose its expert. Shared memory: what each warp needs, then choices, weights, and whether a choice is the first of its expert.
 */
CHAIRLIFT_DEVICE void routeFew(const RouteFewArgs& args) {
  startNext();
  waitForPrevious();
  const ChooseExpertsArgs& choice = args.choice;
  const SortChoicesArgs& sorted = args.sorted;
  const int warp = threadIndex() / 32, used = choice.used, count = choice.rows * used;
  int* const chosen = (int*)(sharedMemory() + choice.rows * choice.bytesOfWarp);
  float* const weights = (float*)(chosen + count);
  int* const isFirst = (int*)(weights + count);
  if (warp < choice.rows) {
    const ChoiceMemory at(choice, sharedMemory() + warp * choice.bytesOfWarp);
    chooseOfRow(choice, warp, at, chosen + warp * used, weights + warp * used);
    syncWarp();
    // Rows that pad the step choose nothing.
    if (sorted.blocks[warp] < 0) {
      for (int i = threadIndex() % 32; i < used; i += 32) chosen[warp * used + i] = noExpert;
    }
  }
  syncBlock();
  for (int i = threadIndex(); i < count; i += threadCount()) {
    const int expert = chosen[i];
    int smaller = 0, before = 0;
    for (int k = 0; k < count; k++) {
      smaller += chosen[k] < expert;
      before += chosen[k] == expert && k < i;
    }
    const bool isChoice = expert != noExpert;
    const int place = smaller + before;
    isFirst[i] = isChoice && before == 0;
    sorted.slots[i] = isChoice ? place : -1;
    choice.weights[i] = weights[i];
    if (!isChoice) continue;
    sorted.places[place] = i / used;
    sorted.factors[place] = weights[i];
  }
  syncBlock();
  for (int i = threadIndex(); i < count; i += threadCount()) {
    if (!isFirst[i] && i > 0) continue;
    const int expert = chosen[i];
    int tile = 0, all = 0, firstPlace = 0;
    uint32_t rows = 0;
    for (int row = 0, k = 0; row < choice.rows; row++) {
      for (int end = k + used; k < end; k++) {
        const int other = chosen[k];
        all += isFirst[k];
        tile += isFirst[k] && other < expert;
        firstPlace += other < expert;
        if (other == expert) rows |= 1u << row;
      }
    }
    if (i == 0) *sorted.tileCount = all;
    if (isFirst[i]) sorted.tiles[tile] = {expert, firstPlace, countBits(rows), rows};
  }
}

}  // namespace
