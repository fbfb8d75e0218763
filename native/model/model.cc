// Loading and housekeeping of a model; its step is in forward.cc.

#include "model/model.h"

#include <algorithm>
#include <atomic>
#include <stdexcept>

namespace chairlift {

namespace {

size_t roundUp32(size_t n) { return (n + 31) / 32 * 32; }

// Prefill rows of one sequence that share a pass over its blocks.
constexpr int rowsPerPiece = 8;

}  // namespace

int Linear::panels() const {
  int total = 0;
  for (const Part& part : parts) total += part.matrix->panels();
  return total;
}

bool Linear::readsCodes() const {
  return std::any_of(parts.begin(), parts.end(),
                     [](const Part& part) { return part.matrix->packed().scaleInputs > 0; });
}

bool Linear::readsValues() const {
  return std::any_of(parts.begin(), parts.end(),
                     [](const Part& part) { return part.matrix->packed().scaleInputs == 0; });
}

Model::Model(const ModelShape& s, const KernelTable& kernels, std::shared_ptr<ThreadPool> pool)
    : shape(s), layers(size_t(s.layerCount)), kernels_(kernels), pool_(std::move(pool)), kv_(s.kv(), s.blockCount) {
  hiddenStride_ = roundUp32(size_t(s.hiddenSize));
  attentionStride_ = roundUp32(size_t(s.headCount) * size_t(s.headSize));
  qkvStride_ = roundUp32(size_t(s.headCount + 2 * s.kvHeadCount) * size_t(s.headSize));
  ffnStride_ = roundUp32(size_t(s.ffnSize));
  attentionScratch_.resize(size_t(pool_->threads()));
  for (auto& scratch : attentionScratch_) scratch.resize(attentionScratchFloats(s.headSize));
}

void Model::pack(Matrix& matrix, int firstRow, const uint8_t* rows, int count) {
  const int firstPanel = firstRow / panelColumns;
  const int panels = (count + panelColumns - 1) / panelColumns;
  std::atomic<bool> finite{true};
  pool_->forEach(panels, 4, [&](int begin, int end, int) {
    for (int panel = begin; panel < end; panel++) {
      const int row = panel * panelColumns;
      if (!matrix.packPanel(firstPanel + panel, rows + size_t(row) * matrix.rowBytes(),
                            std::min(panelColumns, count - row))) {
        finite = false;
      }
    }
  });
  if (!finite) throw std::runtime_error(notFinite);
}

void Model::prepare(const StepInput& input) {
  const int rows = int(input.tokens.size());
  if (rows > rowCapacity_) {
    const size_t n = size_t(rows);
    // Fresh zeros: kernels rely on the padding of every row being zero.
    residual_.assign(n * hiddenStride_, 0.0f);
    normed_.assign(n * hiddenStride_, 0.0f);
    branch_.assign(n * hiddenStride_, 0.0f);
    qkv_.assign(n * qkvStride_, 0.0f);
    attended_.assign(n * attentionStride_, 0.0f);
    gateUp_.assign(n * 2 * ffnStride_, 0.0f);
    factors_.assign(n, 0.0f);
    const size_t groups = (n + tileRows - 1) / tileRows * std::max({hiddenStride_, attentionStride_, ffnStride_}) / groupInputs;
    codes_ = PageBuffer(groups * groupCodes);
    sides_ = PageBuffer(groups * sizeof(GroupSide));
    rotations_.resize(ropes.size());
    for (size_t i = 0; i < ropes.size(); i++) rotations_[i].resize(n * 2 * ropes[i].inverseFrequencies.size());
    rowCapacity_ = rows;
  }
  rowSequence_.resize(size_t(rows));
  rowPosition_.resize(size_t(rows));
  pieces_.clear();
  for (int s = 0; s + 1 < int(input.rowStarts.size()); s++) {
    const int first = input.rowStarts[size_t(s)], end = input.rowStarts[size_t(s) + 1];
    for (int row = first; row < end; row++) {
      rowSequence_[size_t(row)] = s;
      rowPosition_[size_t(row)] = input.starts[size_t(s)] + row - first;
    }
    const int lastPosition = rowPosition_[size_t(end - 1)];
    for (int b = input.starts[size_t(s)] / blockTokens; b <= lastPosition / blockTokens; b++) {
      kv_.hold(input.blocks[size_t(input.blockStarts[size_t(s)] + b)]);
    }
    for (int row = first; row < end; row += rowsPerPiece) {
      for (int head = 0; head < shape.kvHeadCount; head++) {
        pieces_.push_back({s, head, row, std::min(rowsPerPiece, end - row)});
      }
    }
  }
}

}  // namespace chairlift
