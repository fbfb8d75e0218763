// See image-rows.h.

#include "cuda/image-rows.h"

#include <algorithm>

#include "cuda/kernels/vision-args.h"
#include "layers/attention.h"
#include "layers/mla.h"
#include "model/record.h"

namespace chairlift {
namespace cuda {

namespace {

constexpr int threads = 256;

template <class Use>
void eachBody(const ModelParts& parts, const Use& use) {
  for (const Layer& layer : parts.layers) {
    for (const Branch& branch : layer.branches) {
      for (const Part& part : branch.parts) use(*part.body);
    }
  }
}

}  // namespace

std::vector<SequenceRows> allSequences(const StepInput& input) {
  std::vector<SequenceRows> sequences;
  for (size_t i = 0; i + 1 < input.rowStarts.size(); i++) {
    const int first = input.rowStarts[i], rows = input.rowStarts[i + 1] - first, start = input.starts[i];
    sequences.push_back({first, rows, start, input.blockStarts[i], start + rows});
  }
  return sequences;
}

bool turnsOtherwise(const StepInput& input) {
  if (input.rotaryPositions.empty()) return false;
  for (const SequenceRows& sequence : allSequences(input)) {
    for (int row = 0; row < sequence.rows; row++) {
      const int32_t* const own = &input.rotaryPositions[3 * size_t(sequence.firstRow + row)];
      if (std::any_of(own, own + 3, [&](int32_t position) { return position != sequence.start + row; })) return true;
    }
  }
  return false;
}

ImageRowsOfStep::ImageRowsOfStep(const ModelParts& parts, Work& work) : parts_(parts), work_(work) {
  const auto hasAxes = [](const Rope& rope) { return !rope.axes.empty(); };
  const bool turnsByAxes = std::any_of(parts.ropes.begin(), parts.ropes.end(), hasAxes);
  eachBody(parts, [&](const Body& body) {
    if (const auto* attention = dynamic_cast<const Attention*>(&body); attention && attention->imagesBothWays) {
      isBothWays_ = true;
      require(attention->chunk == 0 && !attention->bidirectional, "chunks, or texts seen both ways, of a layer with images");
    }
    require(!turnsByAxes || !dynamic_cast<const Mla*>(&body), "MLA that turns by three positions");
  });
  for (const Rope& rope : parts.ropes) {
    turns_.emplace_back();
    axes_.emplace_back();
    if (rope.axes.empty()) continue;
    const std::vector<int32_t> axes(rope.axes.begin(), rope.axes.end());
    axes_.back() = DeviceMemory(work.device, axes.size() * sizeof(int32_t));
    work.device.upload(axes_.back().as<int32_t>(), axes.data(), axes.size() * sizeof(int32_t));
  }
}

bool ImageRowsOfStep::seesAhead(const StepInput& input) const {
  if (!isBothWays_) return false;
  return std::any_of(input.imageEnds.begin(), input.imageEnds.end(), [](int32_t end) { return end > 0; });
}

StepSequences ImageRowsOfStep::sequencesOf(const StepInput& input) const {
  StepSequences sequences;
  auto& [all, text, images] = sequences.of;
  all = allSequences(input);
  if (!seesAhead(input)) return sequences;
  for (const SequenceRows& sequence : all) {
    const auto positionOf = [&](int row) { return sequence.start + row - sequence.firstRow; };
    // 0: it sees no more than other rows do. Nothing is stored beyond the sequence's end.
    const auto endOf = [&](int row) {
      const int end = std::min(input.imageEnds[size_t(row)], sequence.end);
      return end > positionOf(row) ? end : 0;
    };
    const int after = sequence.firstRow + sequence.rows;
    for (int row = sequence.firstRow; row < after;) {
      const int end = endOf(row);
      int next = row + 1;
      while (next < after && endOf(next) == end) next++;
      if (end > 0) images.push_back({row, next - row, positionOf(row) + imageShift, sequence.tableStart, end});
      else text.push_back({row, next - row, positionOf(row), sequence.tableStart, sequence.end});
      row = next;
    }
  }
  return sequences;
}

void ImageRowsOfStep::beginStep(const StepInput& input, const int32_t* positions) {
  count_ = int(input.images.rows.size());
  layers_ = input.images.deepstack.size();
  work_.turned.positions = positions;
  work_.turned.turns.clear();
  if (positions) {
    for (size_t i = 0; i < turns_.size(); i++) {
      const size_t floats = size_t(work_.rows) * 2 * parts_.ropes[i].pairs();
      work_.turned.turns.push_back(turns_[i].room(work_, floats * sizeof(float)).as<float>());
    }
  }
  if (count_ == 0) return;
  const size_t bytes = size_t(count_) * size_t(parts_.hiddenSize) * sizeof(float), rowBytes = size_t(count_) * sizeof(int32_t);
  work_.device.upload(rows_.room(work_, rowBytes).as<int32_t>(), input.images.rows.data(), rowBytes);
  auto* const values = values_.room(work_, (1 + layers_) * bytes).as<uint8_t>();
  work_.device.upload(values, input.images.embeddings, bytes);
  for (size_t i = 0; i < layers_; i++) work_.device.upload(values + (1 + i) * bytes, input.images.deepstack[i], bytes);
}

void ImageRowsOfStep::turn() {
  for (size_t i = 0; i < work_.turned.turns.size(); i++) {
    TurnRowsArgs args{};
    args.table = work_.rotations[i];
    args.pairs = work_.rotationPairs[i];
    args.axes = axes_[i].as<int32_t>();
    args.positions = work_.turned.positions;
    args.to = const_cast<float*>(work_.turned.turns[i]);
    work_.device.launch("turn_rows", {work_.rows, 1, 128, 0}, args);
  }
}

void ImageRowsOfStep::embed() {
  if (count_ > 0) set(0, false);
}

void ImageRowsOfStep::addAfter(size_t layer) {
  if (!addsAfter(layer)) return;
  set(1 + layer, true);
  work_.measureStream();
}

void ImageRowsOfStep::set(size_t set, bool adds) {
  SetImageRowsArgs args{};
  args.values = values_.as<float>() + set * size_t(count_) * size_t(parts_.hiddenSize);
  args.size = parts_.hiddenSize;
  args.adds = adds;
  args.rows = rows_.as<int32_t>();
  args.x = work_.stream.x;
  args.stride = int64_t(work_.stream.stride);
  work_.device.launch("set_image_rows", {count_, 1, threads, 0}, args);
}

}  // namespace cuda
}  // namespace chairlift
