// Threads that share one loop at a time. The caller takes pieces too and returns when every piece is done: a thread that the
// system holds up delays a loop only if it holds a piece. A model's step and its sampler share one pool: loops of two callers run
// one after the other.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "system/timeline.h"

namespace chairlift {

class ThreadPool {
 public:
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;

  int threads() const { return threads_; }

  /** How many take part from the next loop on, the caller included; at least 1, at most all. */
  void use(int threads);

  /** Records what follows, between loops; `takeTimeline` ends it. */
  void startTimeline(size_t loops, size_t piecesPerThread) {
    timeline_ = std::make_unique<Timeline>(threads_, loops, piecesPerThread);
  }
  /** Null where nothing was recorded. */
  std::unique_ptr<Timeline> takeTimeline() { return std::move(timeline_); }
  /** Null where nothing is recorded. */
  Timeline* timeline() const { return timeline_.get(); }

  /** Calls run(begin, end, worker) for pieces of [0, count); returns when all are done. */
  template <class Run>
  void forEach(const LoopName& name, int count, int piece, const Run& run) {
    share(name, count, piece, count, run);
  }

  /** Calls run(index) for each, one at a time. */
  template <class Run>
  void forEachOne(const LoopName& name, int count, const Run& run) {
    forEach(name, count, 1, [&](int begin, int end, int) {
      for (int index = begin; index < end; index++) run(index);
    });
  }

  /** For indexes that cost the same and are faster in a row: pieces shrink from large ones down to `smallest`. */
  template <class Run>
  void forEachInRuns(const LoopName& name, int count, int smallest, const Run& run) {
    share(name, count, smallest, used_ * 2, run);
  }

 private:
  using Call = void (*)(const void* context, int begin, int end, int worker);

  template <class Run>
  void share(const LoopName& name, int count, int piece, int divisor, const Run& run) {
    if (count <= 0) return;
    const bool isAlone = count <= piece || used_ == 1;
    if (isAlone && !timeline_) return run(0, count, 0);
    const Call call = [](const void* context, int begin, int end, int worker) {
      (*static_cast<const Run*>(context))(begin, end, worker);
    };
    if (isAlone) recordAlone(name, count, &run, call);
    else share(name, count, piece, divisor, &run, call);
  }
  void share(const LoopName& name, int count, int piece, int divisor, const void* context, Call call);
  void shareOut(Timeline* recording, int32_t recorded, int count, int piece, int divisor, const void* context, Call call);
  void recordAlone(const LoopName& name, int count, const void* context, Call call);
  void takePieces(int worker);
  void waitUntilDone(int count);
  void serve(int worker);
  uint32_t loop() const { return uint32_t(state_.load() >> 32); }

  const int threads_;
  // Workers from this index on rest.
  std::atomic<int> used_;
  std::vector<std::thread> workers_;
  std::mutex callers_;

  std::unique_ptr<Timeline> timeline_;

  // The current loop. A piece is claimed by moving `state_` on, which fails if the loop has changed since its
  // description was read; the description changes only when every piece is done.
  std::atomic<const void*> context_{nullptr};
  std::atomic<Call> call_{nullptr};
  std::atomic<int> count_{0};
  // A piece is this many indexes, or what is left divided by this, whichever is more.
  std::atomic<int> piece_{1};
  std::atomic<int> divisor_{1};
  // Where it is recorded, and its number there.
  std::atomic<Timeline*> recording_{nullptr};
  std::atomic<int32_t> recorded_{-1};
  // Number of the loop in the upper half, next index to claim in the lower.
  alignas(64) std::atomic<uint64_t> state_{0};
  alignas(64) std::atomic<int> done_{0};

  alignas(64) std::atomic<int> sleeping_{0};
  std::atomic<bool> closing_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<bool> callerSleeps_{false};
  std::condition_variable allDone_;
  // Resting workers wait here, so that no loop wakes them.
  std::condition_variable rest_;
};

}  // namespace chairlift
