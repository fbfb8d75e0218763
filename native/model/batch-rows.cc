// See batch-rows.h.

#include "model/batch-rows.h"

#include <algorithm>
#include <cmath>

#include "kernels/kernels.h"

namespace chairlift {

namespace {

// Of a prompt.
constexpr int rowsPerGroup = 8;

}  // namespace

void BatchRows::set(const StepInput& input, const std::vector<Rope>& ropes) {
  input_ = &input;
  const size_t rows = input.tokens.size();
  sequences_.resize(rows);
  positions_.resize(rows);
  groups_.clear();
  for (int sequence = 0; sequence + 1 < int(input.rowStarts.size()); sequence++) {
    const int first = input.rowStarts[size_t(sequence)], end = input.rowStarts[size_t(sequence) + 1];
    for (int row = first; row < end; row++) {
      sequences_[size_t(row)] = sequence;
      positions_[size_t(row)] = input.starts[size_t(sequence)] + row - first;
    }
    for (int row = first; row < end; row += rowsPerGroup) {
      groups_.push_back({sequence, row, std::min(rowsPerGroup, end - row)});
    }
  }
  rotations_.resize(ropes.size());
  for (size_t i = 0; i < ropes.size(); i++) rotations_[i].resize(rows * 2 * ropes[i].pairs());
}

int BatchRows::block(int row) const {
  return table(sequences_[size_t(row)])[position(row) / blockTokens];
}

void BatchRows::turn(int row, const std::vector<Rope>& ropes) {
  for (size_t r = 0; r < ropes.size(); r++) {
    const size_t pairs = ropes[r].pairs();
    float* cosines = &rotations_[r][size_t(row) * 2 * pairs];
    for (size_t i = 0; i < pairs; i++) {
      const double angle = double(position(row)) * ropes[r].inverseFrequencies[i];
      cosines[i] = float(std::cos(angle) * double(ropes[r].magnitude));
      cosines[pairs + i] = float(std::sin(angle) * double(ropes[r].magnitude));
    }
  }
}

}  // namespace chairlift
