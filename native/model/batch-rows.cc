// See batch-rows.h.

#include "model/batch-rows.h"

#include <algorithm>
#include <cmath>

#include "kernels/kernels.h"

namespace chairlift {

namespace {

constexpr int rowsPerGroup = 8;

}  // namespace

void BatchRows::set(const StepInput& input, const std::vector<Rope>& ropes) {
  input_ = &input;
  const size_t rows = input.tokens.size();
  sequences_.resize(rows);
  positions_.resize(rows);
  groups_.clear();
  hasGroupEach_ = true;
  for (int sequence = 0; sequence + 1 < int(input.rowStarts.size()); sequence++) {
    const int first = input.rowStarts[size_t(sequence)], end = input.rowStarts[size_t(sequence) + 1];
    for (int row = first; row < end; row++) {
      sequences_[size_t(row)] = sequence;
      positions_[size_t(row)] = input.starts[size_t(sequence)] + row - first;
    }
    const size_t before = groups_.size();
    cutGroups(sequence, first, end);
    if (groups_.size() > before + 1) hasGroupEach_ = false;
  }
  imageRows_.assign(input.images.rows.empty() ? 0 : rows, -1);
  for (size_t i = 0; i < input.images.rows.size(); i++) imageRows_[size_t(input.images.rows[i])] = int(i);
  cutStateRuns(input);
  rotations_.resize(ropes.size());
  for (size_t i = 0; i < ropes.size(); i++) rotations_[i].resize(rows * 2 * ropes[i].pairs());
}

void BatchRows::cutGroups(int sequence, int first, int end) {
  for (int row = first; row < end;) {
    const int most = std::min(row + rowsPerGroup, end);
    int next = row + 1;
    while (next < most && imageEnd(next) == imageEnd(row)) next++;
    groups_.push_back({sequence, row, next - row});
    row = next;
  }
}

void BatchRows::cutStateRuns(const StepInput& input) {
  stateRuns_.assign(input.recurrentFrom.size(), {});
  for (size_t sequence = 0; sequence < input.recurrentFrom.size(); sequence++) {
    int row = input.rowStarts[sequence], from = input.recurrentFrom[sequence];
    const size_t end = size_t(input.recurrentStarts[sequence + 1]);
    for (size_t i = size_t(input.recurrentStarts[sequence]); i < end; i++) {
      const int next = input.recurrentRows[i] + 1, to = input.recurrentSlots[i];
      stateRuns_[sequence].push_back({row, next - row, from, to});
      row = next;
      from = to;
    }
  }
}

int BatchRows::blockAt(int row, int position) const {
  return table(sequences_[size_t(row)])[position / blockTokens];
}

double BatchRows::turningPosition(int row, const Rope& rope, size_t pair) const {
  if (input_->rotaryPositions.empty()) return position(row);
  const size_t axis = rope.axes.empty() ? 0 : size_t(rope.axes[pair]);
  return input_->rotaryPositions[3 * size_t(row) + axis];
}

void BatchRows::turn(int row, const std::vector<Rope>& ropes) {
  for (size_t r = 0; r < ropes.size(); r++) {
    const size_t pairs = ropes[r].pairs();
    float* cosines = &rotations_[r][size_t(row) * 2 * pairs];
    for (size_t i = 0; i < pairs; i++) {
      const double angle = turningPosition(row, ropes[r], i) * ropes[r].inverseFrequencies[i];
      cosines[i] = float(std::cos(angle) * double(ropes[r].magnitude));
      cosines[pairs + i] = float(std::sin(angle) * double(ropes[r].magnitude));
    }
  }
}

}  // namespace chairlift
