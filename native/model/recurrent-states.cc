// See recurrent-states.h.

#include "model/recurrent-states.h"

#include "system/pages.h"

namespace chairlift {

namespace {

size_t wholePages(const std::vector<StateLayout>& layouts) {
  size_t floats = 0;
  for (const StateLayout& layout : layouts) floats += layout.size();
  const size_t page = pageBytes();
  return (floats * sizeof(float) + page - 1) / page * page;
}

}  // namespace

RecurrentStates::RecurrentStates(const std::vector<StateLayout>& layouts, int slots)
    : slots_(slots), stride_(wholePages(layouts) / sizeof(float)), memory_(wholePages(layouts) * size_t(slots)) {
  // Slots are few, so all are committed.
  memory_.commit(0, wholePages(layouts) * size_t(slots));
  size_t at = 0;
  for (const StateLayout& layout : layouts) {
    starts_.push_back(at);
    at += layout.size();
  }
  contentBytes_ = at * sizeof(float);
}

}  // namespace chairlift
