// What a sample needs of a row: the likeliest token, the sum of all weights, and the first candidates in order. The processor
// finishes the sample (src/compute/device-sampling). Logits stay as they are: each block adjusts a copy of its piece of a row.
//
// Groups of tokens have their largest logit. At least as many tokens as the threshold's place among these reach the threshold, and
// not many more, for likely tokens lie scattered. A second pass weighs all tokens and lists those. Include after vec-lane.h.
#pragma once

#include "cuda/kernels/args.h"

namespace {

using namespace chairlift::cuda::sampling;
// CUDA has an old one of its own.
using chairlift::cuda::ballot;

// Candidates that are listed at least, where there are as many.
constexpr int listedAtLeast = 512;
// Logits that a thread loads at once.
constexpr int loadsAhead = 8;
constexpr uint32_t bitsOfExcluded = 0xff800000u, bitsOfInfinity = 0x7f800000u;
// The key of an excluded token; all others have larger ones.
constexpr uint32_t keyOfExcluded = 0x007fffffu;
constexpr uint64_t noPlace = uint64_t(keyOfExcluded) << 32;

/** Larger for larger logits, and the same for both zeros. */
CHAIRLIFT_DEVICE uint32_t keyOf(float logit) {
  const uint32_t bits = asBits(logit + 0.0f);
  return bits < 0x80000000u ? bits | 0x80000000u : ~bits;
}
CHAIRLIFT_DEVICE uint32_t bitsOfKey(uint32_t key) { return key >= 0x80000000u ? key & 0x7fffffffu : ~key; }

/** Larger for tokens that are before others: larger logits first, of equal ones lower tokens. */
CHAIRLIFT_DEVICE uint64_t placeOf(float logit, uint32_t token) { return uint64_t(keyOf(logit)) << 32 | (0xffffffffu - token); }
CHAIRLIFT_DEVICE uint32_t keyOfPlace(uint64_t place) { return uint32_t(place >> 32); }
CHAIRLIFT_DEVICE uint32_t tokenOfPlace(uint64_t place) { return 0xffffffffu - uint32_t(place); }

CHAIRLIFT_DEVICE bool isOddLogit(float logit) { return !(logit < asFloat(bitsOfInfinity)); }

/** One job of a step, and where its results belong. */
struct SampleJob {
  const uint32_t* words;
  const uint32_t* job;
  SampleState* state;
  int row;
  uint32_t* head;
  uint32_t* list;

  CHAIRLIFT_METHOD uint32_t kind() const { return job ? job[jobKind] : uint32_t(kindNothing); }
  CHAIRLIFT_METHOD float factor(int word) const { return asFloat(job[word]); }
};

/** Without words where a row pads the step. */
CHAIRLIFT_DEVICE SampleJob sampleJob(const SampleArgs& args) {
  const int index = blockY() / args.rows, row = blockY() % args.rows, rows = args.jobs[1];
  if (row >= rows) return {nullptr, nullptr, nullptr, row, nullptr, nullptr};
  const uint32_t* const words = (const uint32_t*)args.jobs + args.jobs[0];
  const int answer = index * rows + row;
  return {words,
          words + (row * jobsOfRow + index) * wordsOfJob,
          args.states + blockY(),
          row,
          args.found + answer * wordsOfHead,
          args.found + rows * jobsOfRow * wordsOfHead + answer * wordsOfList};
}

/** The tokens of one piece: chunk k has 32 of them, one for each lane and group. */
struct SamplePiece {
  int piece, chunks, vocabSize;
  float* logits;

  CHAIRLIFT_METHOD int tokenOf(int chunk, int lane) const { return chunk * listLength + piece * groupsOfPiece + lane; }
  /** Null where the token is of another piece. */
  CHAIRLIFT_METHOD float* logitOf(uint32_t token) const {
    if (token >= uint32_t(vocabSize) || int(token / groupsOfPiece % piecesOfRow) != piece) return nullptr;
    return logits + token / listLength * groupsOfPiece + token % groupsOfPiece;
  }
};

CHAIRLIFT_DEVICE float penalized(const SampleJob& job, float logit, uint32_t generated) {
  const float scaled = logit * job.factor(logit < 0 ? jobRepetition : jobInverseRepetition);
  const float taken = float(generated) * job.factor(jobFrequency) + job.factor(jobPresence);
  return scaled - (generated > 0 ? taken : 0.0f);
}

/** Bias, penalties and forbidden tokens, as adjustedLogits in src/sampling/sampler.ts; whether a logit is odd now. */
CHAIRLIFT_DEVICE bool adjustPiece(const SampleJob& job, const SamplePiece& piece) {
  bool isOdd = false;
  for (int list = jobBiased; list <= jobForbidden; list += 2) {
    const int count = int(job.job[list + 1]);
    if (count == 0) continue;
    const uint32_t* const tokens = job.words + job.job[list];
    syncBlock();
    for (int i = threadIndex(); i < count; i += threadCount()) {
      float* const logit = piece.logitOf(tokens[i]);
      if (!logit) continue;
      if (list == jobBiased) *logit = *logit + asFloat(tokens[count + i]);
      else if (list == jobPenalized) *logit = penalized(job, *logit, tokens[count + i]);
      else *logit = asFloat(bitsOfExcluded);
      isOdd = isOdd || isOddLogit(*logit);
    }
  }
  syncBlock();
  return isOdd;
}

/** Copies a piece to shared memory and adjusts it; whether one of this thread's logits is odd. */
CHAIRLIFT_DEVICE bool loadPiece(const SampleArgs& args, const SampleJob& job, const SamplePiece& piece) {
  const int warp = threadIndex() / 32, lane = threadIndex() % 32, warps = threadCount() / 32;
  const float* const row = args.logits + int64_t(job.row) * piece.vocabSize;
  bool isOdd = false;
  for (int first = warp; first < piece.chunks; first += warps * loadsAhead) {
    float loaded[loadsAhead];
#pragma unroll
    for (int i = 0; i < loadsAhead; i++) {
      const int token = piece.tokenOf(first + i * warps, lane);
      // A load without a condition waits for none of those before it.
      const float logit = row[token < piece.vocabSize ? token : piece.vocabSize - 1];
      loaded[i] = token < piece.vocabSize ? logit : asFloat(bitsOfExcluded);
    }
#pragma unroll
    for (int i = 0; i < loadsAhead; i++) {
      const int chunk = first + i * warps;
      if (chunk < piece.chunks) piece.logits[chunk * 32 + lane] = loaded[i];
      isOdd = isOdd || isOddLogit(loaded[i]);
    }
  }
  const bool hasLists = (job.job[jobBiased + 1] | job.job[jobPenalized + 1] | job.job[jobForbidden + 1]) != 0;
  // Without lists a thread reads what it has written itself.
  const bool isOddNow = hasLists && adjustPiece(job, piece);
  return isOdd || isOddNow;
}

/** Calls `use` with each chunk of this warp's, its token and its logit, minus infinity where the mask excludes the token. */
template <class Use>
CHAIRLIFT_DEVICE void eachLogit(const SampleJob& job, const SamplePiece& piece, const Use& use) {
  const int warp = threadIndex() / 32, lane = threadIndex() % 32, warps = threadCount() / 32;
  const uint32_t* const mask = job.job[jobMask] ? job.words + job.job[jobMask] : nullptr;
#pragma unroll 4
  for (int chunk = warp; chunk < piece.chunks; chunk += warps) {
    const int token = piece.tokenOf(chunk, lane);
    // A chunk's tokens share a word of the mask, which ends with the vocabulary.
    const bool isAllowed = token < piece.vocabSize && (!mask || (mask[token / 32] >> lane & 1) != 0);
    use(uint32_t(token), isAllowed ? piece.logits[chunk * 32 + lane] : asFloat(bitsOfExcluded));
  }
}

CHAIRLIFT_DEVICE SamplePiece samplePiece(const SampleArgs& args) {
  const int chunks = (args.vocabSize + listLength - 1) / listLength;
  return {blockX(), chunks, args.vocabSize, (float*)sharedMemory()};
}

CHAIRLIFT_DEVICE uint64_t largerPlace(uint64_t a, uint64_t b) { return a > b ? a : b; }
CHAIRLIFT_DEVICE uint64_t largestPlaceOf32(uint64_t place) {
  for (int half = 16; half > 0; half /= 2) place = largerPlace(place, shuffleXor(place, half));
  return place;
}

/** The first token of each group of a piece, or of the piece. Shared memory: the piece, then a place for each thread. */
CHAIRLIFT_DEVICE void findGroups(const SampleArgs& args) {
  waitForPrevious();
  startNext();
  const SampleJob job = sampleJob(args);
  if (job.kind() == kindNothing) return;
  const SamplePiece piece = samplePiece(args);
  const int thread = threadIndex(), warp = thread / 32, lane = thread % 32, warps = threadCount() / 32;
  uint64_t* const places = (uint64_t*)(piece.logits + piece.chunks * 32);
  const bool isOdd = loadPiece(args, job, piece);
  uint64_t first = noPlace;
  eachLogit(job, piece, [&](uint32_t token, float logit) { first = largerPlace(first, placeOf(logit, token)); });
  places[thread] = first;
  uint32_t* const odd = (uint32_t*)(places + threadCount());
  const uint32_t votes = ballot(isOdd);
  if (lane == 0) odd[warp] = votes;
  syncBlock();
  if (warp > 0) return;
  uint32_t anyOdd = odd[0];
  for (int other = 1; other < warps; other++) {
    first = largerPlace(first, places[other * 32 + lane]);
    anyOdd |= odd[other];
  }
  if (args.listsCandidates) job.state->places[piece.piece * groupsOfPiece + lane] = first;
  else first = largestPlaceOf32(first);
  if (lane > 0) return;
  if (!args.listsCandidates) job.state->places[piece.piece] = first;
  job.state->isOdd[piece.piece] = anyOdd;
}

CHAIRLIFT_DEVICE void writeHead(const SampleJob& job, uint64_t first, bool isOdd) {
  job.head[headListed] = 0;
  job.head[headToken] = tokenOfPlace(first);
  job.head[headLogit] = bitsOfKey(keyOfPlace(first));
  job.head[headOdd] = isOdd;
}

/** Where no candidates are listed: the first token of all pieces. A block is a warp. */
CHAIRLIFT_DEVICE void findLikeliest(const SampleArgs& args) {
  waitForPrevious();
  startNext();
  const SampleJob job = sampleJob(args);
  if (job.kind() == kindNothing) return;
  const int lane = threadIndex();
  const uint64_t first = largestPlaceOf32(job.state->places[lane]);
  const bool isOdd = ballot(job.state->isOdd[lane] != 0) != 0;
  if (lane == 0) writeHead(job, first, isOdd);
}

/** Sorts a number of each of 1,024 threads, the largest first; `at` has room for all in shared memory. */
CHAIRLIFT_DEVICE uint64_t sortDescending(uint64_t own, uint64_t* at) {
  const int thread = threadIndex();
  for (int size = 2; size <= listLength; size *= 2) {
    for (int stride = size / 2; stride > 0; stride /= 2) {
      uint64_t other;
      if (stride < 32) {
        other = shuffleXor(own, stride);
      } else {
        at[thread] = own;
        syncBlock();
        other = at[thread ^ stride];
        syncBlock();
      }
      const bool keepsLarger = ((thread & stride) == 0) == ((thread & size) == 0);
      own = (own > other) == keepsLarger ? own : other;
    }
  }
  return own;
}

/** The likeliest token, and from which logit on tokens are listed. */
CHAIRLIFT_DEVICE void findThreshold(const SampleArgs& args) {
  waitForPrevious();
  startNext();
  const SampleJob job = sampleJob(args);
  if (job.kind() == kindNothing) return;
  const int thread = threadIndex();
  SampleState& state = *job.state;
  const uint64_t own = sortDescending(state.places[thread], (uint64_t*)sharedMemory());
  if (thread < 32) {
    const bool isOdd = ballot(state.isOdd[thread] != 0) != 0;
    if (thread == 0) {
      writeHead(job, own, isOdd);
      state.highest = keyOfPlace(own);
      state.listed = 0;
    }
  }
  if (thread == listedAtLeast - 1) {
    // A list that holds every token needs no threshold.
    const uint32_t key = args.vocabSize <= listLength ? 0 : keyOfPlace(own);
    state.threshold = key > keyOfExcluded ? key : keyOfExcluded + 1;
  }
}

/** 2^scaled in units, for scaled from -unitBits - 1 to 0: that of src/sampling/exponential.ts, in whole numbers. */
CHAIRLIFT_DEVICE uint64_t weightOf(float scaled, int unitBits) {
  constexpr float rounder = 12582912.0f;
  constexpr uint32_t rounderBits = 0x4b400000u;
  const float shifted = scaled + rounder;
  const float rest = scaled - (shifted - rounder);
  float power = 0.001326472731307149f;
  power = power * rest + 0.009671512991189957f;
  power = power * rest + 0.05550733581185341f;
  power = power * rest + 0.24022242426872253f;
  power = power * rest + 0.6931470036506653f;
  power = power * rest + 1.0f;
  const uint32_t bits = asBits(power), digits = (bits & 0x7fffffu) | 0x800000u;
  // The weight is digits x 2^shift.
  const int shift = int(bits >> 23) - 150 + int(asBits(shifted) - rounderBits) + unitBits;
  if (shift >= 0) return uint64_t(digits) << shift;
  // To the nearest whole number, of two the even one.
  const int lost = -shift;
  const uint32_t isUneven = digits >> lost & 1;
  return (digits + (1u << (lost - 1)) - 1 + isUneven) >> lost;
}

/** Weighs all tokens and lists those that reach the threshold. Shared memory: the piece, then a sum for each warp. */
CHAIRLIFT_DEVICE void listCandidates(const SampleArgs& args) {
  waitForPrevious();
  startNext();
  const SampleJob job = sampleJob(args);
  if (job.kind() != kindCandidates) return;
  const SamplePiece piece = samplePiece(args);
  const int thread = threadIndex(), warp = thread / 32, lane = thread % 32, warps = threadCount() / 32;
  SampleState& state = *job.state;
  const float highest = asFloat(bitsOfKey(state.highest)), slope = job.factor(jobSlope);
  const uint32_t threshold = state.threshold;
  const int unitBits = int(job.job[jobUnitBits]);
  const float least = float(-unitBits - 1);
  loadPiece(args, job, piece);
  uint64_t sum = 0;
  eachLogit(job, piece, [&](uint32_t token, float logit) {
    const float scaled = (logit - highest) * slope;
    if (scaled >= least) sum += weightOf(scaled, unitBits);
    const bool isListed = keyOf(logit) >= threshold;
    const uint32_t listed = ballot(isListed);
    if (listed == 0) return;
    uint32_t start = 0;
    if (lane == 0) start = atomicIncrease(&state.listed, uint32_t(countBits(listed)));
    start = shuffle(start, 0);
    const uint32_t at = start + uint32_t(countBits(listed & ((1u << lane) - 1)));
    if (isListed && at < uint32_t(listLength)) state.places[at] = placeOf(logit, token);
  });
  for (int half = 16; half > 0; half /= 2) sum += shuffleXor(sum, half);
  uint64_t* const sums = (uint64_t*)(piece.logits + piece.chunks * 32);
  if (lane == 0) sums[warp] = sum;
  syncBlock();
  if (thread > 0) return;
  for (int other = 1; other < warps; other++) sum += sums[other];
  state.sums[piece.piece] = sum;
}

CHAIRLIFT_DEVICE void sortCandidates(const SampleArgs& args) {
  waitForPrevious();
  startNext();
  const SampleJob job = sampleJob(args);
  if (job.kind() != kindCandidates) return;
  const int thread = threadIndex();
  const SampleState& state = *job.state;
  const uint32_t listed = state.listed;
  const uint64_t own = sortDescending(uint32_t(thread) < listed ? state.places[thread] : noPlace, (uint64_t*)sharedMemory());
  job.list[2 * thread] = bitsOfKey(keyOfPlace(own));
  job.list[2 * thread + 1] = tokenOfPlace(own);
  if (thread >= 32) return;
  uint64_t sum = state.sums[thread];
  for (int half = 16; half > 0; half /= 2) sum += shuffleXor(sum, half);
  if (thread > 0) return;
  job.head[headListed] = listed;
  job.head[headTotalLow] = uint32_t(sum);
  job.head[headTotalHigh] = uint32_t(sum >> 32);
}

}  // namespace
