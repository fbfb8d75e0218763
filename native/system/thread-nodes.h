// On which NUMA node each thread of a pool runs, and which shares of a loop are computed there: a node's threads take shares that
// lie side by side, so that its part of a matrix does, too. What differs between systems is in thread-nodes.cc.
#pragma once

#include <cstddef>
#include <vector>

namespace chairlift {

class ThreadNodes {
 public:
  /** All memory is as near to every thread. */
  ThreadNodes() = default;
  /** `ofThread`: the node of each thread; `ofCore`: of each core, -1 where this process may not use it. */
  ThreadNodes(const std::vector<int>& ofThread, std::vector<int> ofCore);

  bool empty() const { return of_.empty(); }
  /** The share that a thread takes first where the first `used` threads have one each. */
  int shareOf(int thread, int used) const;
  /** Lets the calling thread run on its node's cores alone; it stays where it is if the system refuses. */
  void bind(int thread) const;
  /** Has the system take the pages of each share of `bytes` from the memory of the node that computes it, if it allows that. */
  void place(void* from, size_t bytes) const;

 private:
  int nodeCount() const { return int(numbers_.size()); }
  int countOn(int node, int used) const { return counts_[size_t(used) * numbers_.size() + size_t(node)]; }

  // The system's number of each node.
  std::vector<int> numbers_;
  // An index in `numbers_` for each thread.
  std::vector<int> of_;
  // How many of the first n threads run on each node, [n][node].
  std::vector<int> counts_;
  std::vector<int> ofCore_;
};

}  // namespace chairlift
