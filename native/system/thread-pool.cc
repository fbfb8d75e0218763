// See thread-pool.h.

#include "system/thread-pool.h"

#include <chrono>

namespace chairlift {

namespace {

// Who waits spins this long before it sleeps: within a step loops follow each other closely, and waking a thread costs more than the
// gap. It never yields: since Linux 6.18 that gives up a whole slice, to threads of the lowest priority as well.
constexpr auto awakeWithoutWork = std::chrono::microseconds(200);
constexpr int spinsBetweenLooks = 64;
// Numbers after which those of shares are renewed, for no loop may have touched a share meanwhile: long before a difference of two
// has a wrong sign.
constexpr uint32_t renewedEvery = 1 << 20;
// Nothing is left of a share.
constexpr uint32_t exhausted = std::numeric_limits<int>::max();

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

ThreadPool::ThreadPool(int threads, ThreadNodes nodes)
    : threads_(std::max(1, threads)), nodes_(std::move(nodes)), shares_(size_t(threads_)), used_(threads_) {
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

void ThreadPool::share(const LoopName& name, Loop loop) {
  const std::lock_guard<std::mutex> turn(callers_);
  loop.shares = used_;
  if (!timeline_) return shareOut(loop);
  loop.recording = timeline_.get();
  loop.recorded = timeline_->beginLoop(name);
  shareOut(loop);
  timeline_->endLoop(loop.recorded);
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

void ThreadPool::shareOut(const Loop& loop) {
  const uint32_t last = described_.number.load(std::memory_order_relaxed);
  if (last % renewedEvery == 0) {
    for (Share& share : shares_) share.next.store(uint64_t(last) << 32 | exhausted);
  }
  described_.number.store(last + 1);
  // Release and acquire: who sees a part of this sees that the number has changed.
  described_.context.store(loop.context, std::memory_order_release);
  described_.call.store(loop.call, std::memory_order_release);
  described_.count.store(loop.count, std::memory_order_release);
  described_.piece.store(loop.piece, std::memory_order_release);
  described_.divisor.store(loop.divisor, std::memory_order_release);
  described_.shares.store(loop.shares, std::memory_order_release);
  described_.recording.store(loop.recording, std::memory_order_release);
  described_.recorded.store(loop.recorded, std::memory_order_release);
  done_.store(0, std::memory_order_relaxed);
  described_.number.store(last + 2);
  if (sleeping_.load() > 0) {
    // Whoever is about to sleep has seen the number, or waits by now.
    { const std::lock_guard<std::mutex> lock(mutex_); }
    wake_.notify_all();
  }
  takePieces(0);
  waitUntilDone(loop.count);
}

void ThreadPool::waitUntilDone(int count) {
  if (done_.load() == count) return;
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

/** False where there is none to take pieces of. */
bool ThreadPool::readLoop(Loop& loop, uint32_t& number) const {
  number = described_.number.load(std::memory_order_acquire);
  loop = {described_.context.load(std::memory_order_acquire), described_.call.load(std::memory_order_acquire),
          described_.count.load(std::memory_order_acquire),   described_.piece.load(std::memory_order_acquire),
          described_.divisor.load(std::memory_order_acquire), described_.shares.load(std::memory_order_acquire),
          described_.recording.load(std::memory_order_acquire), described_.recorded.load(std::memory_order_acquire)};
  return number % 2 == 0 && described_.number.load(std::memory_order_acquire) == number;
}

void ThreadPool::takePieces(int worker) {
  Loop loop;
  uint32_t number;
  if (!readLoop(loop, number)) return;
  const int own = nodes_.shareOf(worker, loop.shares);
  for (int i = 0; i < loop.shares; i++) {
    const int taken = takeShare(loop, number, (own + i) % loop.shares, worker);
    if (taken == 0) continue;
    const bool isLast = done_.fetch_add(taken) + taken == loop.count;
    if (isLast && callerSleeps_.load()) {
      const std::lock_guard<std::mutex> lock(mutex_);
      allDone_.notify_one();
    }
  }
}

/** Computes what is left of a share, as far as no other thread does, and returns how many indexes that were. */
int ThreadPool::takeShare(const Loop& loop, uint32_t number, int share, int worker) {
  std::atomic<uint64_t>& next = shares_[size_t(share)].next;
  const int first = loop.begin(share), end = loop.begin(share + 1);
  int taken = 0;
  uint64_t state = next.load(std::memory_order_acquire);
  while (first < end) {
    const int32_t age = int32_t(number - uint32_t(state >> 32));
    const int begin = age == 0 ? int(uint32_t(state)) : first;
    // The loop is over, or nothing is left.
    if (age < 0 || begin >= end) break;
    const int run = std::max(loop.piece, (end - begin) / loop.divisor / loop.piece * loop.piece);
    const int until = std::min(end, begin + run);
    if (!next.compare_exchange_weak(state, uint64_t(number) << 32 | uint32_t(until), std::memory_order_acq_rel)) continue;
    if (loop.recording) {
      const int64_t began = loop.recording->now();
      loop.call(loop.context, begin, until, worker);
      loop.recording->addPiece(loop.recorded, worker, began);
    } else {
      loop.call(loop.context, begin, until, worker);
    }
    taken += until - begin;
    state = next.load(std::memory_order_acquire);
  }
  return taken;
}

void ThreadPool::serve(int worker) {
  nodes_.bind(worker);
  uint32_t seen = 0;
  auto idleSince = std::chrono::steady_clock::now();
  for (int spins = 1;; spins++) {
    if (worker >= used_.load(std::memory_order_relaxed)) {
      std::unique_lock<std::mutex> lock(mutex_);
      rest_.wait(lock, [&] { return closing_.load() || worker < used_; });
      idleSince = std::chrono::steady_clock::now();
    }
    const uint32_t number = described_.number.load(std::memory_order_acquire);
    if (number != seen && number % 2 == 0) {
      seen = number;
      takePieces(worker);
      idleSince = std::chrono::steady_clock::now();
    }
    if (closing_.load(std::memory_order_relaxed)) return;
    pause();
    if (spins % 64 != 0 || std::chrono::steady_clock::now() - idleSince < awakeWithoutWork) continue;
    std::unique_lock<std::mutex> lock(mutex_);
    sleeping_.fetch_add(1);
    wake_.wait(lock, [&] { return closing_.load() || described_.number.load() != seen; });
    sleeping_.fetch_sub(1);
  }
}

}  // namespace chairlift
