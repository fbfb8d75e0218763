// Threads that share one loop at a time. The caller takes pieces too and returns when every piece is done: a thread that the
// system holds up delays a loop only if it holds a piece. A model's step and its sampler share one pool: loops of two callers run
// one after the other.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace chairlift {

class ThreadPool {
 public:
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;

  int threads() const { return threads_; }

  /** How many take part from the next loop on, the caller included; at least 1, at most all. */
  void use(int threads);

  /** Calls run(begin, end, worker) for pieces of [0, count); returns when all are done. */
  template <class Run>
  void forEach(int count, int piece, const Run& run) {
    share(count, piece, count, run);
  }

  /** Calls run(index) for each, one at a time. */
  template <class Run>
  void forEachOne(int count, const Run& run) {
    forEach(count, 1, [&](int begin, int end, int) {
      for (int index = begin; index < end; index++) run(index);
    });
  }

  /** For indexes that cost the same and are faster in a row: pieces shrink from large ones down to `smallest`. */
  template <class Run>
  void forEachInRuns(int count, int smallest, const Run& run) {
    share(count, smallest, used_ * 2, run);
  }

 private:
  using Call = void (*)(const void* context, int begin, int end, int worker);

  template <class Run>
  void share(int count, int piece, int divisor, const Run& run) {
    if (count <= 0) return;
    if (count <= piece || used_ == 1) return run(0, count, 0);
    share(count, piece, divisor, &run, [](const void* context, int begin, int end, int worker) {
      (*static_cast<const Run*>(context))(begin, end, worker);
    });
  }
  void share(int count, int piece, int divisor, const void* context, Call call);
  void takePieces(int worker);
  void waitUntilDone(int count);
  void serve(int worker);
  uint32_t loop() const { return uint32_t(state_.load() >> 32); }

  const int threads_;
  // Workers from this index on rest.
  std::atomic<int> used_;
  std::vector<std::thread> workers_;
  std::mutex callers_;

  // The current loop. A piece is claimed by moving `state_` on, which fails if the loop has changed since its
  // description was read; the description changes only when every piece is done.
  std::atomic<const void*> context_{nullptr};
  std::atomic<Call> call_{nullptr};
  std::atomic<int> count_{0};
  // A piece is this many indexes, or what is left divided by this, whichever is more.
  std::atomic<int> piece_{1};
  std::atomic<int> divisor_{1};
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
