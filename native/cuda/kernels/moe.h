// Experts: their choice, the order of rows by expert, and the sum of what they give. See layers/moe.cc.
// Include after rows.h.
#pragma once

#include "cuda/kernels/layer-args.h"
#include "model/exponential.h"

namespace {

constexpr int noExpert = 0x7fffffff;

CHAIRLIFT_DEVICE bool isNan(double value) { return value != value; }
CHAIRLIFT_DEVICE double negativeInfinity() { return double(-INFINITY); }

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

/** Scores of all experts by all threads of a block: an exponential takes long. A softmax is left without its division. */
CHAIRLIFT_DEVICE void scoreExperts(const ChooseExpertsArgs& args, const float* logits, double* scores) {
  const int thread = threadIndex(), threads = threadCount(), count = args.experts;
  if (args.isSigmoid) {
    for (int i = thread; i < count; i += threads) scores[i] = chairlift::sigmoid(double(logits[i]));
    return;
  }
  // A first score of NaN stays the largest.
  double largest = double(logits[0]);
  for (int i = thread % 32; i < count; i += 32) {
    if (largest < double(logits[i])) largest = double(logits[i]);
  }
  for (int half = 16; half > 0; half /= 2) {
    const double other = shuffleXor(largest, half);
    if (largest < other) largest = other;
  }
  for (int i = thread; i < count; i += threads) scores[i] = chairlift::exponential(double(logits[i]) - largest);
}

/** Keeps the experts of the best groups, by one warp. */
CHAIRLIFT_DEVICE void keepBestGroups(const ChooseExpertsArgs& args, double* wanted, double* ofGroups, uint8_t* kept) {
  const int lane = threadIndex(), size = args.experts / args.groups;
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

/** A block has one row; its first warp chooses. Shared memory: scores twice, scores of groups, flags. */
CHAIRLIFT_DEVICE void chooseExperts(const ChooseExpertsArgs& args) {
  startNext();
  waitForPrevious();
  const int lane = threadIndex(), row = blockX(), count = args.experts;
  double* const scores = (double*)sharedMemory();
  double* const wanted = scores + count;
  double* const ofGroups = wanted + count;
  uint8_t* const taken = (uint8_t*)(ofGroups + args.groups);
  scoreExperts(args, args.logits + int64_t(row) * args.stride, scores);
  syncBlock();
  if (threadIndex() >= 32) return;
  double sum = 0;
  if (!args.isSigmoid) {
#pragma unroll 8
    for (int i = 0; i < count; i++) sum = sum + scores[i];
    syncWarp();
  }
  for (int i = lane; i < count; i += 32) {
    if (!args.isSigmoid) scores[i] = scores[i] / sum;
    wanted[i] = args.routingBias ? scores[i] + double(args.routingBias[i]) : scores[i];
    taken[i] = 0;
  }
  syncWarp();
  if (args.groups > 0) keepBestGroups(args, wanted, ofGroups, taken + count);
  int32_t* const chosen = args.chosen + int64_t(row) * args.used;
  float* const weights = args.weights + int64_t(row) * args.used;
  double chosenSum = 0;
  for (int i = 0; i < args.used; i++) {
    const int expert = takeBest(wanted, taken, count);
    chosenSum = chosenSum + scores[expert];
    if (lane == 0) chosen[i] = expert;
  }
  syncWarp();
  const double scale = args.scale / (args.isNormalized ? chosenSum : 1.0);
  for (int i = lane; i < args.used; i += 32) {
    const int expert = chosen[i];
    const double own = args.expertScales ? double(args.expertScales[expert]) : 1.0;
    weights[i] = float(scores[expert] * scale * own);
  }
}

/** How many lanes of the warp before this one have the same value. */
CHAIRLIFT_DEVICE int equalBefore(int value) {
  int count = 0;
  for (int lane = 0; lane < 32; lane++) {
    const int other = shuffle(value, lane);
    if (lane < threadIndex() % 32 && other == value) count++;
  }
  return count;
}

/** The sum of this lane's value and those of all lanes before it. */
CHAIRLIFT_DEVICE int sumUpTo(int value) {
  const int lane = threadIndex() % 32;
  for (int step = 1; step < 32; step *= 2) {
    const int other = shuffle(value, lane - step);
    if (lane >= step) value += other;
  }
  return value;
}

/**
 * A counting sort by one block; each warp has a run of choices, so that those of one expert stay in order. Shared memory: for each
 * warp a count by expert, then the first place and the first tile of each expert, and one more.
 */
CHAIRLIFT_DEVICE void sortChoices(const SortChoicesArgs& args) {
  startNext();
  waitForPrevious();
  const int thread = threadIndex(), threads = threadCount(), warp = thread / 32, warps = threads / 32, lane = thread % 32;
  const int experts = args.experts, count = args.rows * args.used;
  int* const counts = (int*)sharedMemory();
  int* const firstPlaces = counts + warps * experts;
  int* const firstTiles = firstPlaces + experts + 1;
  const int perWarp = (count + warps * 32 - 1) / (warps * 32) * 32;
  const auto expertOf = [&](int i) {
    return i < count && args.blocks[args.firstRow + i / args.used] >= 0 ? args.chosen[i] : noExpert;
  };
  for (int i = thread; i < warps * experts; i += threads) counts[i] = 0;
  syncBlock();
  for (int at = 0; at < perWarp; at += 32) {
    const int expert = expertOf(warp * perWarp + at + lane);
    if (expert != noExpert) atomicIncrease(&counts[warp * experts + expert], 1);
  }
  syncBlock();
  // Counts become those of the warps before.
  for (int expert = thread; expert < experts; expert += threads) {
    int before = 0;
    for (int i = 0; i < warps; i++) {
      const int own = counts[i * experts + expert];
      counts[i * experts + expert] = before;
      before += own;
    }
    firstPlaces[expert] = before;
  }
  syncBlock();
  if (warp == 0) {
    int places = 0, tiles = 0;
    for (int at = 0; at < experts; at += 32) {
      const int expert = at + lane, own = expert < experts ? firstPlaces[expert] : 0;
      const int ownTiles = (own + rowsOfTile - 1) / rowsOfTile;
      const int placesUpTo = sumUpTo(own), tilesUpTo = sumUpTo(ownTiles);
      if (expert < experts) {
        firstPlaces[expert] = places + placesUpTo - own;
        firstTiles[expert] = tiles + tilesUpTo - ownTiles;
      }
      places += shuffle(placesUpTo, 31);
      tiles += shuffle(tilesUpTo, 31);
    }
    if (lane == 0) {
      firstPlaces[experts] = places;
      *args.tileCount = tiles;
    }
  }
  syncBlock();
  for (int expert = thread; expert < experts; expert += threads) {
    const int end = firstPlaces[expert + 1];
    int tile = firstTiles[expert];
    for (int at = firstPlaces[expert]; at < end; at += rowsOfTile) {
      args.tiles[tile++] = {expert, at, end - at < rowsOfTile ? end - at : rowsOfTile};
    }
  }
  for (int at = 0; at < perWarp; at += 32) {
    const int i = warp * perWarp + at + lane, expert = expertOf(i);
    const int before = equalBefore(expert);
    int* const next = expert == noExpert ? nullptr : &counts[warp * experts + expert];
    const int place = next ? firstPlaces[expert] + *next + before : -1;
    syncWarp();
    if (next) atomicIncrease(next, 1);
    syncWarp();
    if (i >= count) continue;
    args.slots[i] = place;
    if (place < 0) continue;
    args.places[place] = args.firstRow + i / args.used;
    args.factors[place] = args.weights[i];
  }
}

/** A block has one row. */
CHAIRLIFT_DEVICE void mixExperts(const MixExpertsArgs& args) {
  startNext();
  waitForPrevious();
  const int64_t first = int64_t(blockX()) * args.used;
  float* const to = args.out + int64_t(blockX()) * args.stride;
  for (int i = threadIndex(); i < args.size; i += threadCount()) {
    float sum = 0;
    for (int choice = 0; choice < args.used; choice++) {
      const int slot = args.slots[first + choice];
      if (slot < 0) continue;
      sum = fusedMultiplyAdd(args.given[int64_t(slot) * args.stride + i], args.weights ? args.weights[first + choice] : 1.0f, sum);
    }
    to[i] = sum;
  }
}

/** A block has one row. Shared memory: 64 floats. */
CHAIRLIFT_DEVICE void cutGates(const CutGatesArgs& args) {
  startNext();
  waitForPrevious();
  float* const gates = args.gates + int64_t(blockX()) * args.stride;
  const Scale scale = scaleOfRow(normLayer, gates, args.size, 0.0f, (float*)sharedMemory());
  const float limit = scale.mean + divided(args.cutoff, scale.factor);
  // NaN stays NaN.
  for (int i = threadIndex(); i < args.size; i += threadCount()) gates[i] = gates[i] < limit ? 0.0f : gates[i] - limit;
}

CHAIRLIFT_DEVICE void shareRows(const ShareRowsArgs& args) {
  startNext();
  waitForPrevious();
  const float share = float(chairlift::sigmoid(double(args.shares[int64_t(blockX()) * args.shareStride])));
  float* const row = args.rows + int64_t(blockX()) * args.stride;
  for (int i = threadIndex(); i < args.size; i += threadCount()) row[i] = row[i] * share;
}

}  // namespace
