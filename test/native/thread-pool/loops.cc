// Counts how often a pool computes each index of many loops, long and short, with two callers and numbers of threads that change.
// Threads belong to nodes in turns, and each node computes shares that lie side by side.
// Usage: loops THREADS SECONDS NODES

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#include "system/thread-pool.h"

using namespace chairlift;

namespace {

struct Findings {
  long loops = 0, wrong = 0;
};

Findings runLoops(ThreadPool& pool, double seconds, unsigned seed, bool changesThreads) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  std::mt19937 random(seed);
  const auto below = [&](int limit) { return int(random() % unsigned(limit)); };
  std::vector<int> computed;
  std::atomic<long> strangers{0};
  Findings found;
  while (Clock::now() < end) {
    computed.assign(size_t(below(4) == 0 ? below(4000) : below(20)), 0);
    const auto count = [&](int first, int last, int worker) {
      if (worker < 0 || worker >= pool.threads()) strangers++;
      for (int index = first; index < last; index++) computed[size_t(index)]++;
    };
    const int total = int(computed.size()), piece = 1 + below(3);
    if (below(2) == 0) pool.forEach("one by one", total, piece, count);
    else pool.forEachInRuns("in runs", total, piece, count);
    for (int times : computed) found.wrong += times != 1;
    found.loops++;
    if (changesThreads && below(50) == 0) pool.use(1 + below(pool.threads()));
    // Now and then long enough for workers to sleep.
    if (below(2000) == 0) std::this_thread::sleep_for(std::chrono::microseconds(below(600)));
  }
  found.wrong += strangers;
  return found;
}

/** Those of the first n threads, for every n: that a share is taken twice, or before one of a node with a lower number. */
long wrongShares(const ThreadNodes& nodes, const std::vector<int>& ofThread) {
  long wrong = 0;
  for (int used = 1; used <= int(ofThread.size()); used++) {
    std::vector<int> nodeOfShare(size_t(used), -1);
    for (int thread = 0; thread < used; thread++) {
      const int share = nodes.shareOf(thread, used);
      if (share < 0 || share >= used || nodeOfShare[size_t(share)] >= 0) wrong++;
      else nodeOfShare[size_t(share)] = ofThread[size_t(thread)];
    }
    wrong += !std::is_sorted(nodeOfShare.begin(), nodeOfShare.end());
  }
  return wrong;
}

}  // namespace

int main(int, char** arguments) {
  const double seconds = atof(arguments[2]);
  const int threads = atoi(arguments[1]), nodeCount = atoi(arguments[3]);
  std::vector<int> ofThread;
  for (int thread = 0; nodeCount > 1 && thread < threads; thread++) ofThread.push_back(thread % nodeCount);
  // Without a list of cores, threads are not held to any.
  const ThreadNodes nodes(ofThread, {});
  ThreadPool pool(threads, nodes);
  Findings others;
  std::thread other([&] { others = runLoops(pool, seconds, 7, false); });
  const Findings own = runLoops(pool, seconds, 3, true);
  other.join();
  printf("%ld loops, %ld wrong\n", own.loops + others.loops, own.wrong + others.wrong + wrongShares(nodes, ofThread));
}
