// See thread-pool.h.

#include "system/thread-pool.h"

#include <algorithm>
#include <chrono>

namespace chairlift {

namespace {

// Who waits spins this long before it sleeps: within a step loops follow each other closely, and waking a thread costs more than the
// gap. It never yields: since Linux 6.18 that gives up a whole slice, to threads of the lowest priority as well.
constexpr auto awakeWithoutWork = std::chrono::microseconds(200);
constexpr int spinsBetweenLooks = 64;
constexpr uint64_t exhausted = 0xffffffffu;

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

ThreadPool::ThreadPool(int threads) : threads_(std::max(1, threads)), used_(threads_) {
  for (int worker = 1; worker < threads_; worker++) workers_.emplace_back([this, worker] { serve(worker); });
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    closing_ = true;
  }
  wake_.notify_all();
  rest_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::use(int threads) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    used_ = std::clamp(threads, 1, threads_);
  }
  rest_.notify_all();
}

void ThreadPool::share(const LoopName& name, int count, int piece, int divisor, const void* context, Call call) {
  const std::lock_guard<std::mutex> turn(callers_);
  if (!timeline_) return shareOut(nullptr, -1, count, piece, divisor, context, call);
  const int32_t loop = timeline_->beginLoop(name);
  shareOut(timeline_.get(), loop, count, piece, divisor, context, call);
  timeline_->endLoop(loop);
}

void ThreadPool::recordAlone(const LoopName& name, int count, const void* context, Call call) {
  // A timeline has one caller at a time.
  const std::lock_guard<std::mutex> turn(callers_);
  const int32_t loop = timeline_->beginLoop(name);
  const int64_t begin = timeline_->now();
  call(context, 0, count, 0);
  timeline_->addPiece(loop, 0, begin);
  timeline_->endLoop(loop);
}

void ThreadPool::shareOut(Timeline* recording, int32_t recorded, int count, int piece, int divisor, const void* context,
                          Call call) {
  // Nothing can be claimed while the description changes. Release and acquire on its parts: who sees a new
  // part sees the old loop closed.
  const uint64_t last = loop();
  state_.store(last << 32 | exhausted);
  context_.store(context, std::memory_order_release);
  call_.store(call, std::memory_order_release);
  count_.store(count, std::memory_order_release);
  piece_.store(piece, std::memory_order_release);
  divisor_.store(divisor, std::memory_order_release);
  recording_.store(recording, std::memory_order_release);
  recorded_.store(recorded, std::memory_order_release);
  done_.store(0, std::memory_order_relaxed);
  state_.store((last + 1) << 32);
  if (sleeping_.load() > 0) {
    std::lock_guard<std::mutex> lock(mutex_);
    wake_.notify_all();
  }
  takePieces(0);
  waitUntilDone(count);
}

void ThreadPool::waitUntilDone(int count) {
  const auto since = std::chrono::steady_clock::now();
  for (int spins = 1; done_.load() != count; spins++) {
    pause();
    if (spins % spinsBetweenLooks != 0 || std::chrono::steady_clock::now() - since < awakeWithoutWork) continue;
    // A worker is held up: its thread may go on on this core.
    std::unique_lock<std::mutex> lock(mutex_);
    callerSleeps_.store(true);
    allDone_.wait(lock, [&] { return done_.load() == count; });
    callerSleeps_.store(false);
    return;
  }
}

void ThreadPool::takePieces(int worker) {
  uint64_t state = state_.load(std::memory_order_acquire);
  for (;;) {
    if (uint32_t(state) == exhausted) return;
    const int begin = int(uint32_t(state));
    const int count = count_.load(std::memory_order_acquire);
    const int left = (count - begin) / divisor_.load(std::memory_order_acquire);
    const int end = std::min(count, begin + std::max(piece_.load(std::memory_order_acquire), left));
    const void* context = context_.load(std::memory_order_acquire);
    const Call call = call_.load(std::memory_order_acquire);
    Timeline* const recording = recording_.load(std::memory_order_acquire);
    const int32_t recorded = recorded_.load(std::memory_order_acquire);
    if (begin >= count) return;
    const uint64_t claimed = state - uint64_t(begin) + uint64_t(end);
    if (!state_.compare_exchange_weak(state, claimed, std::memory_order_acq_rel)) continue;
    if (recording) {
      const int64_t began = recording->now();
      call(context, begin, end, worker);
      recording->addPiece(recorded, worker, began);
    } else {
      call(context, begin, end, worker);
    }
    const bool isLast = done_.fetch_add(end - begin) + end - begin == count;
    if (isLast && callerSleeps_.load()) {
      std::lock_guard<std::mutex> lock(mutex_);
      allDone_.notify_one();
    }
    state = state_.load(std::memory_order_acquire);
  }
}

void ThreadPool::serve(int worker) {
  uint32_t seen = 0;
  auto idleSince = std::chrono::steady_clock::now();
  for (int spins = 1;; spins++) {
    if (worker >= used_.load(std::memory_order_relaxed)) {
      std::unique_lock<std::mutex> lock(mutex_);
      rest_.wait(lock, [&] { return closing_.load() || worker < used_; });
      idleSince = std::chrono::steady_clock::now();
    }
    if (loop() != seen) {
      seen = loop();
      takePieces(worker);
      idleSince = std::chrono::steady_clock::now();
    }
    if (closing_.load(std::memory_order_relaxed)) return;
    pause();
    if (spins % spinsBetweenLooks != 0 || std::chrono::steady_clock::now() - idleSince < awakeWithoutWork) continue;
    std::unique_lock<std::mutex> lock(mutex_);
    sleeping_.fetch_add(1);
    wake_.wait(lock, [&] { return closing_.load() || loop() != seen; });
    sleeping_.fetch_sub(1);
  }
}

}  // namespace chairlift
