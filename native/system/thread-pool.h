// Threads that share one loop at a time. Each has a share of a loop's indexes, the same of every loop of as many: so it reads the
// same weights in every step. Who is done with it takes pieces of the others' shares, and so does the caller, which returns when
// every index is done: a thread that the system holds up delays a loop only by the piece it holds. A model's step and its sampler
// share one pool: loops of two callers run one after the other.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "system/thread-nodes.h"
#include "system/timeline.h"

namespace chairlift {

class ThreadPool {
 public:
  explicit ThreadPool(int threads, ThreadNodes nodes = {});
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;

  int threads() const { return threads_; }
  /** How many take part. */
  int used() const { return used_; }
  const ThreadNodes& nodes() const { return nodes_; }

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
    share(name, count, piece, oneByOne, run);
  }

  /** Calls run(index) for each, one at a time. */
  template <class Run>
  void forEachOne(const LoopName& name, int count, const Run& run) {
    forEach(name, count, 1, [&](int begin, int end, int) {
      for (int index = begin; index < end; index++) run(index);
    });
  }

  /** For indexes that cost the same and are faster in a row: pieces are half of what is left of a share, down to `smallest`. */
  template <class Run>
  void forEachInRuns(const LoopName& name, int count, int smallest, const Run& run) {
    share(name, count, smallest, 2, run);
  }

 private:
  using Call = void (*)(const void* context, int begin, int end, int worker);
  static constexpr int oneByOne = std::numeric_limits<int>::max();

  /** What threads need to know of a loop. */
  struct Loop {
    const void* context;
    Call call;
    // A piece is this many indexes, or what is left of a share divided by this, whichever is more.
    int count, piece, divisor;
    int shares;
    // Where it is recorded, and its number there.
    Timeline* recording;
    int32_t recorded;

    /** Where a share begins: at a whole piece. Of one past the last: the end. */
    int begin(int share) const {
      const int64_t pieces = (int64_t(count) + piece - 1) / piece;
      return int(std::min<int64_t>(count, pieces * share / shares * piece));
    }
  };

  template <class Run>
  void share(const LoopName& name, int count, int piece, int divisor, const Run& run) {
    if (count <= 0) return;
    const bool isAlone = count <= piece || used_ == 1;
    if (isAlone && !timeline_) return run(0, count, 0);
    const Call call = [](const void* context, int begin, int end, int worker) {
      (*static_cast<const Run*>(context))(begin, end, worker);
    };
    if (isAlone) recordAlone(name, count, &run, call);
    else share(name, {&run, call, count, piece, divisor, 0, nullptr, -1});
  }
  void share(const LoopName& name, Loop loop);
  void shareOut(const Loop& loop);
  void recordAlone(const LoopName& name, int count, const void* context, Call call);
  void takePieces(int worker);
  void waitUntilDone(int count);
  int takeShare(const Loop& loop, uint32_t number, int share, int worker);
  bool readLoop(Loop& loop, uint32_t& number) const;
  void serve(int worker);

  const int threads_;
  const ThreadNodes nodes_;
  std::vector<std::thread> workers_;
  std::mutex callers_;
  std::unique_ptr<Timeline> timeline_;

  // The current loop, all on one line, which the caller alone writes. It is described between two changes of `number_`, which is odd
  // meanwhile: who has read a description and then finds the number as it was before has read one loop's.
  struct alignas(64) Description {
    std::atomic<uint32_t> number{0};
    std::atomic<int> count{0}, piece{1}, divisor{1}, shares{1};
    std::atomic<int32_t> recorded{-1};
    std::atomic<const void*> context{nullptr};
    std::atomic<Call> call{nullptr};
    std::atomic<Timeline*> recording{nullptr};
  };
  Description described_;

  // The number of a loop in the upper half, the next index to claim in the lower. As long as the number is that of an earlier loop,
  // nothing has been claimed. A piece is claimed by an exchange, which fails if it has been claimed meanwhile; a loop is not over, and
  // so described, as long as there is a piece to claim.
  struct alignas(128) Share {
    std::atomic<uint64_t> next{0};
  };
  std::vector<Share> shares_;
  alignas(128) std::atomic<int> done_{0};

  // Workers from this index on rest. Away from what changes in every loop.
  alignas(128) std::atomic<int> used_;
  std::atomic<int> sleeping_{0};
  std::atomic<bool> closing_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
  // Resting workers wait here, so that no loop wakes them.
  std::condition_variable rest_;
  // The caller waits here for workers that are held up.
  std::condition_variable allDone_;
  std::atomic<bool> callerSleeps_{false};
};

}  // namespace chairlift
