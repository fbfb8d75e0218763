// What follows a part of a branch: norms, additions to the branch and the stream, and the next input. Include after input.h.
#pragma once

namespace {

/**
 * A row of a branch on its way to the stream, in shared memory: each thread changes its own values, by fours. `isPlain`: no norms but
 * the next one, see FinishPartArgs; then the code is short, and code comes from memory, too.
 */
template <bool isMixture, bool isPlain>
class FinishedRow {
 public:
  CHAIRLIFT_METHOD FinishedRow(const FinishPartArgs& args)
      : args_(args),
        own_((Floats4*)sharedMemory()),
        fours_(paddedSize() / 4),
        at_((float*)(own_ + fours_)),
        first_(int64_t(blockX()) * args.stride) {}

  CHAIRLIFT_METHOD void finish() {
    if constexpr (isPlain) {
      load(false, true);
      store(args_.stream + first_);
      syncBlock();
      const float* const row = (const float*)own_;
      const Scale scale = scaleOfRow(normRms, row, args_.size, args_.epsilon, at_);
      if (threadIndex() == 0) args_.scales[normRms][blockX()] = scale;
      makeNextInput(args_.nextNorm.weight, nullptr, scale, row, fours_ * 4 / inputsOfGroup, args_.next, blockX());
    } else {
      finishAll();
    }
  }

 private:
  static constexpr int atOnce = 2;

  CHAIRLIFT_METHOD void finishAll() {
    const bool isBranch = !args_.partNorm.weight, isSum = args_.isLast && isBranch && !args_.branchNorm.weight;
    // What no norm is between is added at once.
    load(isBranch && args_.branch, isSum);
    if (args_.partNorm.weight) {
      normalize(args_.partNorm);
      if (args_.branch) change([&](Floats4 value, int i) { return addBranch(value, branch()[i]); });
    }
    if (!args_.isLast) {
      store(args_.kept + first_);
      return;
    }
    if (args_.branchNorm.weight) normalize(args_.branchNorm);
    if (!isSum) change([&](Floats4 value, int i) { return addToStream(value, stream()[i]); });
    if (args_.streamNorm.weight) normalize(args_.streamNorm);
    store(args_.stream + first_);
    syncBlock();
    measure();
  }

  CHAIRLIFT_METHOD int paddedSize() const { return (args_.size + inputsOfGroup - 1) / inputsOfGroup * inputsOfGroup; }
  CHAIRLIFT_METHOD Floats4 part(int i) const {
    if constexpr (isMixture) return mixedFour(args_.mixture, blockX(), args_.stride, 4 * i);
    return ((const Floats4*)(args_.part + first_))[i];
  }
  CHAIRLIFT_METHOD const Floats4* branch() const { return (const Floats4*)(args_.branch + first_); }
  CHAIRLIFT_METHOD const Floats4* stream() const { return (const Floats4*)(args_.stream + first_); }

  template <class Change>
  CHAIRLIFT_METHOD void change(const Change& changed) {
    for (int i = threadIndex(); i < fours_; i += threadCount()) own_[i] = changed(own_[i], i);
  }
  static CHAIRLIFT_METHOD Floats4 addBranch(Floats4 a, Floats4 b) {
    return {fusedMultiplyAdd(a.x, 1.0f, b.x), fusedMultiplyAdd(a.y, 1.0f, b.y), fusedMultiplyAdd(a.z, 1.0f, b.z),
            fusedMultiplyAdd(a.w, 1.0f, b.w)};
  }
  CHAIRLIFT_METHOD Floats4 addToStream(Floats4 a, Floats4 b) const {
    const float scale = args_.scale, after = isPlain ? 1.0f : args_.streamScale;
    const Floats4 sum{fusedMultiplyAdd(a.x, scale, b.x), fusedMultiplyAdd(a.y, scale, b.y), fusedMultiplyAdd(a.z, scale, b.z),
                      fusedMultiplyAdd(a.w, scale, b.w)};
    return after == 1.0f ? sum : Floats4{sum.x * after, sum.y * after, sum.z * after, sum.w * after};
  }

  /** All loads of some steps are under way before the first is used. */
  CHAIRLIFT_METHOD void load(bool addsBranch, bool addsStream) {
    const int threads = threadCount();
#pragma unroll 1
    for (int first = threadIndex(); first < fours_; first += atOnce * threads) {
      Floats4 parts[atOnce], branches[atOnce], streams[atOnce];
#pragma unroll
      for (int k = 0; k < atOnce; k++) {
        const int i = first + k * threads;
        if (i >= fours_) continue;
        parts[k] = part(i);
        if (addsBranch) branches[k] = branch()[i];
        if (addsStream) streams[k] = stream()[i];
      }
#pragma unroll
      for (int k = 0; k < atOnce; k++) {
        const int i = first + k * threads;
        if (i >= fours_) continue;
        const Floats4 sum = addsBranch ? addBranch(parts[k], branches[k]) : parts[k];
        own_[i] = addsStream ? addToStream(sum, streams[k]) : sum;
      }
    }
  }

  /** Values beyond the row stay as they are. */
  CHAIRLIFT_METHOD void store(float* to) const {
#pragma unroll 1
    for (int i = threadIndex(); i < fours_; i += threadCount()) {
      if (isPlain || 4 * i + 4 <= args_.size) {
        ((Floats4*)to)[i] = own_[i];
      } else {
        for (int k = 4 * i; k < args_.size; k++) to[k] = ((const float*)own_)[k];
      }
    }
  }

  CHAIRLIFT_METHOD void normalize(const NormArgs& norm) {
    syncBlock();
    normalizeRow(norm, (float*)own_, args_.size, at_);
  }

  /** For the norms that read the stream, the next of which is applied here. */
  CHAIRLIFT_METHOD void measure() {
    float* const row = (float*)own_;
    const int padding = args_.size + threadIndex();
    if (padding < paddedSize()) row[padding] = 0.0f;
    Scale next{};
    for (int kind = 0; kind < 2; kind++) {
      if (!args_.scales[kind]) continue;
      const Scale scale = scaleOfRow(kind, row, args_.size, args_.epsilon, at_);
      if (threadIndex() == 0) args_.scales[kind][blockX()] = scale;
      if (kind == args_.nextNorm.kind) next = scale;
    }
    if (!args_.nextNorm.weight) return;
    makeNextInput(args_.nextNorm.weight, args_.nextNorm.bias, next, row, paddedSize() / inputsOfGroup, args_.next, blockX());
  }

  const FinishPartArgs& args_;
  Floats4* const own_;
  const int fours_;
  float* const at_;
  // Of the row, in floats.
  const int64_t first_;
};

/** A block has one row. Shared memory: the row, in whole groups, and 64 floats. */
template <bool isMixture, bool isPlain>
CHAIRLIFT_DEVICE void finishPart(const FinishPartArgs& args) {
  startNext();
  if constexpr (isPlain) {
    // No kernel writes weights.
    constexpr int line = 32;
    if (threadIndex() * line < args.size) {
      prefetch(args.nextNorm.weight + threadIndex() * line);
      // Weights have driven it out of the L2 cache since the last kernel of this kind.
      prefetch(args.stream + int64_t(blockX()) * args.stride + threadIndex() * line);
    }
  }
  waitForPrevious();
  FinishedRow<isMixture, isPlain>(args).finish();
}

}  // namespace
