// What towers do with rows alone: norms, linear maps within bounds, feed-forwards. Results never depend on how many rows are given.
#pragma once

#include <vector>

#include "model/row-buffer.h"
#include "tower/tower.h"

namespace chairlift {

/** Rows whose length is padded to whole groups, which hold anything there. */
struct RowView {
  float* x;
  size_t stride;
  int size;

  float* row(int index) const { return x + size_t(index) * stride; }
  RowView from(int first) const { return {row(first), stride, size}; }
};

class RowMaps {
 public:
  RowMaps(const KernelTable& itsKernels, ThreadPool& itsPool)
      : kernels(itsKernels), pool(itsPool), multiplier_(itsKernels, itsPool) {}

  /** As a map's input: normalised, where there is a norm; until the next call. */
  InputRows inputOf(const RowView& rows, int count, const std::optional<SizedNorm>& norm, float epsilon);
  void apply(const TowerLinear& map, const InputRows& input, int count, const RowView& to);
  void apply(const TowerMlp& mlp, const InputRows& input, int count, const RowView& to);
  /** Writes rows as a map would read them; may be in place. */
  void write(const InputRows& input, int count, const RowView& to);

  const KernelTable& kernels;
  ThreadPool& pool;

 private:
  void hold(const RowView& rows, int count, Bounds bounds);

  Multiplier multiplier_;
  std::vector<RowScale> scales_;
  RowBuffer bounded_, inner_, gates_;
};

/** Room for rows of a size. */
inline RowView roomFor(RowBuffer& buffer, int count, int size) {
  const size_t stride = paddedLength(size);
  return {buffer.rows(size_t(count), stride), stride, size};
}

}  // namespace chairlift
