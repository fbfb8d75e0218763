// Threads that run one body together: the caller is worker 0, all meet at barriers between phases.
// Work is handed out piece by piece, so a slow core delays nobody by more than one piece.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace chairlift {

class ThreadPool;

class Worker {
 public:
  Worker(ThreadPool& pool, int index) : pool_(pool), index_(index) {}

  int index() const { return index_; }

  /** Calls run(begin, end) for pieces of [0, count) shared among all workers; returns when every piece is done. */
  template <class Run>
  void forEach(int count, int piece, const Run& run);

 private:
  ThreadPool& pool_;
  int index_;
  uint32_t phase_ = 0;
};

class ThreadPool {
 public:
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;

  int threads() const { return threads_; }

  /** Runs `body` on all threads at once and returns when all have left it. Every worker must pass the same phases. */
  void run(const std::function<void(Worker&)>& body);

 private:
  friend class Worker;
  void serve(int index);
  void barrier();

  const int threads_;
  std::vector<std::thread> workers_;
  const std::function<void(Worker&)>* body_ = nullptr;

  std::mutex mutex_;
  std::condition_variable wake_;
  bool closing_ = false;
  int sleeping_ = 0;
  alignas(64) std::atomic<uint64_t> round_{0};

  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<uint32_t> generation_{0};
  // Two counters take turns: while one hands out a phase, the other is set back for the next.
  struct alignas(64) Counter {
    std::atomic<int> next{0};
  };
  Counter counters_[2];
};

template <class Run>
void Worker::forEach(int count, int piece, const Run& run) {
  auto& counter = pool_.counters_[phase_ % 2].next;
  if (index_ == 0) pool_.counters_[(phase_ + 1) % 2].next.store(0, std::memory_order_relaxed);
  phase_++;
  for (;;) {
    const int begin = counter.fetch_add(piece, std::memory_order_relaxed);
    if (begin >= count) break;
    run(begin, begin + piece < count ? begin + piece : count);
  }
  pool_.barrier();
}

}  // namespace chairlift
