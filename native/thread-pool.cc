// See thread-pool.h.

#include "thread-pool.h"

#include <chrono>

namespace chairlift {

namespace {

// Between steps a worker stays awake this long: steps follow each other closely under load, and waking a
// sleeping thread costs more than the gap. After that an idle machine is left alone.
constexpr auto awakeBetweenRuns = std::chrono::microseconds(200);
constexpr int spinsBeforeYield = 4000;

inline void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

ThreadPool::ThreadPool(int threads) : threads_(threads < 1 ? 1 : threads) {
  for (int index = 1; index < threads_; index++) workers_.emplace_back([this, index] { serve(index); });
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    closing_ = true;
    round_.fetch_add(1);
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run(const std::function<void(Worker&)>& body) {
  body_ = &body;
  counters_[0].next.store(0, std::memory_order_relaxed);
  counters_[1].next.store(0, std::memory_order_relaxed);
  bool sleepers;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    round_.fetch_add(1, std::memory_order_release);
    sleepers = sleeping_ > 0;
  }
  if (sleepers) wake_.notify_all();
  Worker self(*this, 0);
  body(self);
  barrier();
}

void ThreadPool::serve(int index) {
  uint64_t seen = 0;
  for (;;) {
    const auto sleepAt = std::chrono::steady_clock::now() + awakeBetweenRuns;
    int spins = 0;
    while (round_.load(std::memory_order_acquire) == seen) {
      pause();
      if (++spins % 256 != 0 || std::chrono::steady_clock::now() < sleepAt) continue;
      std::unique_lock<std::mutex> lock(mutex_);
      sleeping_++;
      wake_.wait(lock, [&] { return round_.load(std::memory_order_relaxed) != seen; });
      sleeping_--;
    }
    seen++;
    {
      // `closing_` is written under the lock before the round moves on.
      std::lock_guard<std::mutex> lock(mutex_);
      if (closing_) return;
    }
    Worker self(*this, index);
    (*body_)(self);
    barrier();
  }
}

void ThreadPool::barrier() {
  const uint32_t generation = generation_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) == threads_ - 1) {
    arrived_.store(0, std::memory_order_relaxed);
    generation_.store(generation + 1, std::memory_order_release);
    return;
  }
  int spins = 0;
  while (generation_.load(std::memory_order_acquire) == generation) {
    if (++spins < spinsBeforeYield) pause();
    else std::this_thread::yield();
  }
}

}  // namespace chairlift
