// See threads.h.

#include "cuda/simulator/threads.h"

#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <deque>
#include <stdexcept>
#include <string>
#include <vector>

namespace chairlift {
namespace cuda {

namespace {

const SimulatedKernel* firstKernel = nullptr;

constexpr size_t stackBytes = 256 << 10;

struct Copy {
  void* to;
  const void* from;
};

/** A stack, and where a thread on it goes on. At its end it waits for the thread of the next block. */
struct Fiber {
  void* stack;
  jmp_buf place;
  bool isDone;
  // How many times it has met its warp and its block.
  uint64_t warpMeetings, blockMeetings;
  std::vector<std::vector<Copy>> copies;
  simulator::Position position;
};

struct Warp {
  // Of this meeting and the one before: a lane may be one ahead.
  alignas(16) uint8_t exchanged[2][32][simulator::laneBytes];
  uint64_t meetings = 0;
  int arrived = 0;
};

/** One block at a time; fibers are kept for the next. */
class Block {
 public:
  ~Block() { release(); }

  void run(const SimulatedKernel& kernel, const simulator::Position& first, size_t sharedBytes, const void* args) {
    kernel_ = &kernel;
    args_ = args;
    threads_ = first.threads;
    // What nobody has written reads as NaN.
    shared_.assign(sharedBytes + 128, 0xff);
    while (int(fibers_.size()) < threads_) start();
    warps_.resize(size_t((threads_ + 31) / 32));
    for (Warp& warp : warps_) warp.meetings = 0, warp.arrived = 0;
    blockMeetings_ = 0;
    arrived_ = 0;
    for (int thread = 0; thread < threads_; thread++) {
      Fiber& fiber = fibers_[size_t(thread)];
      fiber.isDone = false;
      fiber.warpMeetings = fiber.blockMeetings = 0;
      fiber.copies.clear();
      fiber.position = first;
      fiber.position.thread = thread;
    }
    runAll();
  }

  const simulator::Position& position() const { return self_->position; }
  uint8_t* shared() { return (uint8_t*)((uintptr_t(shared_.data()) + 127) / 128 * 128); }

  void meetBlock() {
    const uint64_t meeting = ++self_->blockMeetings;
    if (++arrived_ == threads_) {
      arrived_ = 0;
      blockMeetings_ = meeting;
    }
    while (blockMeetings_ < meeting) yield();
  }

  const uint8_t* exchange(const void* own, size_t bytes) {
    Warp& warp = warps_[size_t(self_->position.thread / 32)];
    const uint64_t meeting = ++self_->warpMeetings;
    memcpy(warp.exchanged[meeting % 2][self_->position.thread % 32], own, bytes);
    if (++warp.arrived == 32) {
      warp.arrived = 0;
      warp.meetings = meeting;
    }
    while (warp.meetings < meeting) yield();
    return warp.exchanged[meeting % 2][0];
  }

  // Copies are made when they are waited for, so that a kernel that does not wait reads what was there before.
  void copy(void* to, const void* from) {
    if (self_->copies.empty()) self_->copies.emplace_back();
    self_->copies.back().push_back({to, from});
  }
  void commit() {
    if (self_->copies.empty()) self_->copies.emplace_back();
    self_->copies.emplace_back();
  }
  void waitFor(int pending) {
    // The last list is still open.
    while (int(self_->copies.size()) - 1 > pending) {
      for (const Copy& one : self_->copies.front()) memcpy(one.to, one.from, 16);
      self_->copies.erase(self_->copies.begin());
    }
  }

 private:
  static void enter() {
    Block& block = *current_;
    Fiber& own = *block.self_;
    for (;;) {
      if (!setjmp(own.place)) longjmp(block.scheduler_, 1);
      block.kernel_->run(block.args_);
      own.isDone = true;
    }
  }

  /** Prepares a stack; from then on jumps are enough, which make no system calls. */
  void start() {
    void* stack = mmap(nullptr, stackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED) throw std::runtime_error("no memory for the stacks of a simulated block");
    fibers_.emplace_back();
    self_ = &fibers_.back();
    self_->stack = stack;
    ucontext_t context, back;
    getcontext(&context);
    context.uc_stack.ss_sp = stack;
    // Tops of stacks that lay at the same place of their pages would share few lines of the processor's caches.
    context.uc_stack.ss_size = stackBytes - fibers_.size() % 64 * 576;
    context.uc_link = nullptr;
    makecontext(&context, enter, 0);
    current_ = this;
    if (!setjmp(scheduler_)) swapcontext(&back, &context);
  }

  void release() {
    for (const Fiber& fiber : fibers_) munmap(fiber.stack, stackBytes);
    fibers_.clear();
  }

  bool canRun(const Fiber& fiber) const {
    if (fiber.isDone || fiber.blockMeetings > blockMeetings_) return false;
    return fiber.warpMeetings <= warps_[size_t(fiber.position.thread / 32)].meetings;
  }

  void resume(Fiber& fiber) {
    self_ = &fiber;
    if (!setjmp(scheduler_)) longjmp(fiber.place, 1);
  }

  void runAll() {
    for (int left = threads_; left > 0;) {
      bool moved = false;
      for (int first = 0; first < threads_; first += 32) {
        const int end = first + 32 < threads_ ? first + 32 : threads_;
        // A warp runs as far as it can before the next one.
        for (bool again = true; again;) {
          again = false;
          for (int thread = first; thread < end; thread++) {
            Fiber& fiber = fibers_[size_t(thread)];
            if (!canRun(fiber)) continue;
            resume(fiber);
            again = moved = true;
            if (fiber.isDone) left--;
          }
        }
      }
      if (moved) continue;
      // They are in the middle of a kernel.
      release();
      throw std::runtime_error(std::string(kernel_->name) + ": threads of a block wait for each other");
    }
  }

  void yield() {
    if (!setjmp(self_->place)) longjmp(scheduler_, 1);
  }

  static thread_local Block* current_;

  const SimulatedKernel* kernel_ = nullptr;
  const void* args_ = nullptr;
  int threads_ = 0, arrived_ = 0;
  uint64_t blockMeetings_ = 0;
  std::vector<uint8_t> shared_;
  // Threads keep references to theirs.
  std::deque<Fiber> fibers_;
  std::vector<Warp> warps_;
  jmp_buf scheduler_;

 public:
  static Block& current() { return *current_; }
  Fiber* self_ = nullptr;
};

thread_local Block* Block::current_ = nullptr;

}  // namespace

SimulatedKernel::SimulatedKernel(const char* itsName, RunKernel itsRun, int itsThreads)
    : name(itsName), run(itsRun), threads(itsThreads), next(firstKernel) {
  firstKernel = this;
}

const SimulatedKernel* findSimulated(const char* name) {
  const SimulatedKernel* kernel = firstKernel;
  while (kernel && strcmp(kernel->name, name) != 0) kernel = kernel->next;
  return kernel;
}

void simulate(const SimulatedKernel& kernel, int gridX, int gridY, int threads, size_t sharedBytes, const void* args) {
  if (threads <= 0 || threads > kernel.threads || threads % 32 != 0) {
    throw std::runtime_error(std::string(kernel.name) + ": blocks of " + std::to_string(threads) + " threads");
  }
  static thread_local Block block;
  for (int y = 0; y < gridY; y++) {
    for (int x = 0; x < gridX; x++) block.run(kernel, {0, threads, x, y, gridX}, sharedBytes, args);
  }
}

namespace simulator {

const Position& position() { return Block::current().position(); }
uint8_t* shared() { return Block::current().shared(); }
void meetBlock() { Block::current().meetBlock(); }
const uint8_t* exchange(const void* own, size_t bytes) { return Block::current().exchange(own, bytes); }
void copy(void* to, const void* from) { Block::current().copy(to, from); }
void commit() { Block::current().commit(); }
void waitFor(int pending) { Block::current().waitFor(pending); }

}  // namespace simulator

}  // namespace cuda
}  // namespace chairlift
