// The rows of a step: their positions, blocks and rotations, and which of them are attended together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace chairlift {

/** Rows of images: see `BatchImages` in src/compute/backend.ts. Values are the caller's. */
struct ImageRows {
  std::vector<int32_t> rows;
  const float* embeddings = nullptr;
  // By layer.
  std::vector<const float*> deepstack;
};

/** One batch: see `Batch` in src/compute/backend.ts. */
struct StepInput {
  std::vector<int32_t> tokens, rowStarts, starts, blocks, blockStarts, logitRows, stateRows;
  // See `BatchStates` there; empty where the model has no recurrent states.
  std::vector<int32_t> recurrentFrom, recurrentStarts, recurrentRows, recurrentSlots;
  // By sequence; empty where none uses one.
  std::vector<int32_t> adapters;
  ImageRows images;
  // Empty where no sequence has images.
  std::vector<int32_t> rotaryPositions, imageEnds;
};

struct Rope {
  std::vector<double> inverseFrequencies;
  // By which of a row's three positions each pair turns; empty: all by its position.
  std::vector<double> axes;
  float magnitude = 1;

  size_t pairs() const { return inverseFrequencies.size(); }
};

struct Rotation {
  const float *cosines, *sines;
  int pairs;
};

/** Rows of one sequence, and the slots of its recurrent state before them (-1: none) and after. */
struct StateRun {
  int firstRow, rows, from, to;
};

/** Rows of one sequence that share a pass over its blocks, all of one image or of none. */
struct RowGroup {
  int sequence, firstRow, rows;
};

class BatchRows {
 public:
  void set(const StepInput& input, const std::vector<Rope>& ropes);

  int count() const { return int(positions_.size()); }
  int position(int row) const { return positions_[size_t(row)]; }
  /** One past the last position of a sequence in this step. */
  int end(int sequence) const {
    const size_t at = size_t(sequence);
    return input_->starts[at] + input_->rowStarts[at + 1] - input_->rowStarts[at];
  }
  const std::vector<RowGroup>& groups() const { return groups_; }
  /** Whether the rows of each sequence are one group. */
  bool hasGroupEach() const { return hasGroupEach_; }
  const ImageRows& images() const { return input_->images; }
  /** Its place among rows of images; negative: none. */
  int imageRow(int row) const { return imageRows_.empty() ? -1 : imageRows_[size_t(row)]; }
  /** One past the last position of a row's image; 0: none. */
  int imageEnd(int row) const { return input_->imageEnds.empty() ? 0 : input_->imageEnds[size_t(row)]; }
  /** By sequence. */
  const std::vector<std::vector<StateRun>>& stateRuns() const { return stateRuns_; }
  const int32_t* table(int sequence) const { return &input_->blocks[size_t(input_->blockStarts[size_t(sequence)])]; }
  int block(int row) const { return blockAt(row, position(row)); }
  /** The block of another position of a row's sequence. */
  int blockAt(int row, int position) const;
  /** Of its sequence, in this step. */
  bool isFirst(int row) const { return row == input_->rowStarts[size_t(sequences_[size_t(row)])]; }
  int rowsAfter(int row) const { return input_->rowStarts[size_t(sequences_[size_t(row)]) + 1] - 1 - row; }

  /** Computes the rotations of a row. */
  void turn(int row, const std::vector<Rope>& ropes);
  Rotation rotation(int rope, int row) const {
    const std::vector<float>& all = rotations_[size_t(rope)];
    const size_t pairs = all.size() / size_t(count()) / 2;
    const float* cosines = &all[size_t(row) * 2 * pairs];
    return {cosines, cosines + pairs, int(pairs)};
  }

 private:
  void cutGroups(int sequence, int first, int end);
  void cutStateRuns(const StepInput& input);
  double turningPosition(int row, const Rope& rope, size_t pair) const;

  const StepInput* input_ = nullptr;
  std::vector<int> sequences_, positions_;
  // Empty where no row is of an image.
  std::vector<int> imageRows_;
  std::vector<RowGroup> groups_;
  bool hasGroupEach_ = true;
  std::vector<std::vector<StateRun>> stateRuns_;
  // By rope and row.
  std::vector<std::vector<float>> rotations_;
};

}  // namespace chairlift
