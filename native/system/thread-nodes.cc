// See thread-nodes.h.

#include "system/thread-nodes.h"

#include <algorithm>

#include "system/pages.h"

#ifdef __linux__
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace chairlift {

ThreadNodes::ThreadNodes(const std::vector<int>& ofThread, std::vector<int> ofCore) : ofCore_(std::move(ofCore)) {
  numbers_ = ofThread;
  std::sort(numbers_.begin(), numbers_.end());
  numbers_.erase(std::unique(numbers_.begin(), numbers_.end()), numbers_.end());
  std::vector<int> counts(numbers_.size());
  counts_ = counts;
  for (const int number : ofThread) {
    of_.push_back(int(std::lower_bound(numbers_.begin(), numbers_.end(), number) - numbers_.begin()));
    counts[size_t(of_.back())]++;
    counts_.insert(counts_.end(), counts.begin(), counts.end());
  }
}

int ThreadNodes::shareOf(int thread, int used) const {
  if (empty() || thread >= used) return thread;
  const int own = of_[size_t(thread)];
  int share = countOn(own, thread);
  for (int node = 0; node < own; node++) share += countOn(node, used);
  return share;
}

#ifdef __linux__

void ThreadNodes::bind(int thread) const {
  if (empty()) return;
  const int number = numbers_[size_t(of_[size_t(thread)])];
  cpu_set_t* const cores = CPU_ALLOC(ofCore_.size());
  if (!cores) return;
  const size_t bytes = CPU_ALLOC_SIZE(ofCore_.size());
  CPU_ZERO_S(bytes, cores);
  for (size_t core = 0; core < ofCore_.size(); core++) {
    if (ofCore_[core] == number) CPU_SET_S(core, bytes, cores);
  }
  sched_setaffinity(0, bytes, cores);
  CPU_FREE(cores);
}

void ThreadNodes::place(void* from, size_t bytes) const {
  if (empty()) return;
  // The system's header for it is of a library that is not everywhere.
  constexpr int preferred = 1;
  const int threads = int(of_.size());
  char* const memory = static_cast<char*>(from);
  size_t begin = 0;
  int shares = 0;
  for (int node = 0; node < nodeCount(); node++) {
    shares += countOn(node, threads);
    const size_t end = node + 1 == nodeCount() ? bytes : bytes / size_t(threads) * size_t(shares) / pageBytes() * pageBytes();
    const size_t number = size_t(numbers_[size_t(node)]), bits = 8 * sizeof(unsigned long);
    std::vector<unsigned long> mask(number / bits + 1);
    mask[number / bits] = 1ul << number % bits;
    if (end > begin) syscall(SYS_mbind, memory + begin, end - begin, preferred, mask.data(), mask.size() * bits + 1, 0);
    begin = end;
  }
}

#else

void ThreadNodes::bind(int) const {}
void ThreadNodes::place(void*, size_t) const {}

#endif

}  // namespace chairlift
