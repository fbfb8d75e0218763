// See view-lists.h.

#include "cuda/tower/view-lists.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "kernels/kernels.h"

namespace chairlift {
namespace cuda {

ViewLists::ViewLists(Device& device, const TowerProgram& program) : program_(program) {
  std::vector<uint32_t> words;
  values_ = add(words, program.values);
  for (const std::vector<float>& rotation : program.rotations) rotations_.push_back(add(words, rotation));
  int blockCount = 0;
  for (const TokenGroups& groups : program.groups) {
    groups_.push_back(add(words, groups.order));
    add(words, groups.places);
    std::vector<int32_t> tokens;
    for (size_t row = 0; row < groups.order.size(); row++) {
      const size_t group = size_t(groups.groups[row]);
      tokens.push_back(groups.firstBlocks[group] * blockTokens + groups.places[row] - groups.starts[group]);
    }
    add(words, tokens);
    blockCount = std::max(blockCount, groups.blockCount);
  }
  for (const TowerOperation& operation : program.operations) {
    if (operation.kind == TowerOperation::Kind::Table) {
      operations_.push_back(add(words, operation.taps.starts));
      add(words, operation.taps.rows);
      add(words, operation.taps.weights);
    } else {
      operations_.push_back(add(words, operation.sources));
    }
  }
  std::vector<int32_t> blocks(size_t(blockCount), 0);
  std::iota(blocks.begin(), blocks.end(), 0);
  blocks_ = add(words, blocks);
  memory_ = DeviceMemory(device, words.size() * sizeof(uint32_t));
  device.upload(memory_.as<uint32_t>(), words.data(), words.size() * sizeof(uint32_t));
}

template <class T>
size_t ViewLists::add(std::vector<uint32_t>& words, const std::vector<T>& list) {
  static_assert(sizeof(T) == sizeof(uint32_t), "lists of words");
  const size_t at = words.size();
  words.resize(at + list.size());
  if (!list.empty()) memcpy(&words[at], list.data(), list.size() * sizeof(T));
  return at;
}

ViewLists::Groups ViewLists::groups(int index) const {
  const size_t rows = program_.groups[size_t(index)].order.size(), first = groups_[size_t(index)];
  return {at<int32_t>(first), at<int32_t>(first + rows), at<int32_t>(first + 2 * rows)};
}

ViewLists::TapLists ViewLists::taps(int operation) const {
  const Taps& taps = program_.operations[size_t(operation)].taps;
  const size_t first = operations_[size_t(operation)], rows = first + taps.starts.size();
  return {at<int32_t>(first), at<int32_t>(rows), at<float>(rows + taps.rows.size())};
}

}  // namespace cuda
}  // namespace chairlift
