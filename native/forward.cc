// One forward pass over a batch: a chain of loops, each shared out among all threads.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "model.h"

namespace chairlift {

template <class Run>
void Model::eachRow(int rows, const Run& run) {
  pool_.forEach(rows, 1, [&](int begin, int end, int) {
    for (int row = begin; row < end; row++) run(row);
  });
}

void Model::step(const StepInput& input, float* logits) {
  prepare(input);
  eachRow(int(input.tokens.size()), [&](int row) {
    embed(input, row);
    if (!layers.empty()) normalize(row, &residual_[size_t(row) * hiddenStride_], layers[0].attentionNorm, layers[0].qkv);
  });
  for (int layer = 0; layer < int(layers.size()); layer++) runLayer(input, layer);
  runHead(input, logits);
}

void Model::embed(const StepInput& input, int row) {
  float* x = &residual_[size_t(row) * hiddenStride_];
  embedding->unpackRow(input.tokens[size_t(row)], x);
  if (shape.embeddingScale != 1.0f) {
    for (int i = 0; i < shape.hiddenSize; i++) x[i] *= shape.embeddingScale;
  }
  for (size_t r = 0; r < ropes.size(); r++) {
    const size_t half = ropes[r].inverseFrequencies.size();
    float* cosines = &rotations_[r][size_t(row) * 2 * half];
    for (size_t i = 0; i < half; i++) {
      const double angle = double(rowPosition_[size_t(row)]) * ropes[r].inverseFrequencies[i];
      cosines[i] = float(std::cos(angle) * double(ropes[r].magnitude));
      cosines[half + i] = float(std::sin(angle) * double(ropes[r].magnitude));
    }
  }
}

void Model::runLayer(const StepInput& input, int index) {
  const Layer& layer = layers[size_t(index)];
  const int rows = int(input.tokens.size());

  multiply(layer.qkv, rows, normed_.data(), hiddenStride_, qkv_.data(), qkvStride_);
  eachRow(rows, [&](int row) { rotateAndStore(input, layer, index, row); });
  pool_.forEach(int(pieces_.size()), 1, [&](int begin, int end, int worker) {
    for (int p = begin; p < end; p++) attend(input, layer, index, pieces_[size_t(p)], worker);
  });
  const int attentionSize = shape.headCount * shape.headSize;
  eachRow(rows, [&](int row) {
    quantize(row, &attended_[size_t(row) * attentionStride_], attentionSize, layer.output);
  });
  multiply(layer.output, rows, attended_.data(), attentionStride_, branch_.data(),
           hiddenStride_);
  eachRow(rows, [&](int row) {
    addBranch(row, layer.attentionPostNorm);
    normalize(row, &residual_[size_t(row) * hiddenStride_], layer.ffnNorm, layer.gateUp);
  });

  multiply(layer.gateUp, rows, normed_.data(), hiddenStride_, gateUp_.data(),
           2 * ffnStride_);
  eachRow(rows, [&](int row) {
    float* gate = &gateUp_[size_t(row) * 2 * ffnStride_];
    kernels_.gateUp(shape.activation, gate, gate + ffnStride_, shape.ffnSize);
    quantize(row, gate, shape.ffnSize, layer.down);
  });
  multiply(layer.down, rows, gateUp_.data(), 2 * ffnStride_, branch_.data(), hiddenStride_);
  const bool last = index + 1 == int(layers.size());
  eachRow(rows, [&](int row) {
    addBranch(row, layer.ffnPostNorm);
    if (last) return;
    const Layer& next = layers[size_t(index) + 1];
    normalize(row, &residual_[size_t(row) * hiddenStride_], next.attentionNorm, next.qkv);
  });
}

void Model::runHead(const StepInput& input, float* logits) {
  const int wanted = int(input.logitRows.size());
  if (wanted == 0) return;
  eachRow(wanted, [&](int i) {
    const size_t row = size_t(input.logitRows[size_t(i)]);
    normalize(i, &residual_[row * hiddenStride_], finalNorm, head);
  });
  multiply(head, wanted, normed_.data(), hiddenStride_, logits, size_t(shape.vocabSize));
  if (shape.logitSoftcap <= 0) return;
  eachRow(wanted, [&](int i) {
    kernels_.softcapInPlace(logits + size_t(i) * size_t(shape.vocabSize), shape.vocabSize, shape.logitSoftcap);
  });
}

void Model::addBranch(int row, const std::vector<float>& postNorm) {
  float* branch = &branch_[size_t(row) * hiddenStride_];
  if (!postNorm.empty()) {
    kernels_.rmsNorm(branch, postNorm.data(), branch, shape.hiddenSize, shape.normEpsilon);
  }
  kernels_.addTo(&residual_[size_t(row) * hiddenStride_], branch, shape.hiddenSize);
}

void Model::normalize(int row, const float* from, const std::vector<float>& weight, const Linear& reader) {
  float* to = &normed_[size_t(row) * hiddenStride_];
  kernels_.rmsNorm(from, weight.data(), to, shape.hiddenSize, shape.normEpsilon);
  quantize(row, to, shape.hiddenSize, reader);
}

void Model::quantize(int row, const float* from, int count, const Linear& reader) {
  if (!reader.readsCodes()) return;
  const size_t at = size_t(row) * codeStride_;
  kernels_.quantize(from, count, &codes_[at], &scales_[at / groupInputs], &sums_[at / groupInputs * groupSums]);
}

void Model::normalizeHead(float* values, const std::vector<float>& weight, float* padded) const {
  if (weight.empty()) return;
  const size_t bytes = size_t(shape.headSize) * sizeof(float);
  memset(padded, 0, weight.size() * sizeof(float));
  memcpy(padded, values, bytes);
  kernels_.rmsNorm(padded, weight.data(), padded, shape.headSize, shape.normEpsilon);
  memcpy(values, padded, bytes);
}

void Model::rotateAndStore(const StepInput& input, const Layer& layer, int layerIndex, int row) {
  float* queries = &qkv_[size_t(row) * qkvStride_];
  float* keys = queries + size_t(shape.headCount) * size_t(shape.headSize);
  float* values = keys + size_t(shape.kvHeadCount) * size_t(shape.headSize);
  const size_t half = ropes[size_t(layer.rope)].inverseFrequencies.size();
  const float* cosines = &rotations_[size_t(layer.rope)][size_t(row) * 2 * half];
  float padded[maxHeadSize];
  const auto turn = [&](float* head, const std::vector<float>& norm) {
    normalizeHead(head, norm, padded);
    kernels_.rotate(head, cosines, cosines + half, int(half));
  };
  for (int head = 0; head < shape.headCount; head++) turn(queries + head * shape.headSize, layer.queryNorm);

  const int position = rowPosition_[size_t(row)];
  const int tableStart = input.blockStarts[size_t(rowSequence_[size_t(row)])];
  const int block = input.blocks[size_t(tableStart + position / blockTokens)];
  for (int head = 0; head < shape.kvHeadCount; head++) {
    turn(keys + head * shape.headSize, layer.keyNorm);
    uint8_t* to = blockAt(layerIndex, block) + size_t(head) * headBlockBytes(shape.kvType, shape.headSize);
    kernels_.storeKv(shape.kvType, keys + head * shape.headSize, values + head * shape.headSize, shape.headSize,
                     position % blockTokens, to);
  }
}

void Model::attend(const StepInput& input, const Layer& layer, int layerIndex, const AttentionPiece& piece,
                   int worker) {
  const int group = shape.headCount / shape.kvHeadCount;
  const size_t headOffset = size_t(piece.kvHead) * size_t(group) * size_t(shape.headSize);
  AttentionTask task;
  task.queries = &qkv_[size_t(piece.firstRow) * qkvStride_] + headOffset;
  task.outputs = &attended_[size_t(piece.firstRow) * attentionStride_] + headOffset;
  task.rows = piece.rows;
  task.queryHeads = group;
  task.queryStride = qkvStride_;
  task.outputStride = attentionStride_;
  task.position = rowPosition_[size_t(piece.firstRow)];
  task.headSize = shape.headSize;
  task.window = layer.window;
  task.scale = shape.attentionScale;
  task.softcap = shape.attentionSoftcap;
  task.blocks = &input.blocks[size_t(input.blockStarts[size_t(piece.sequence)])];
  task.base = blockAt(layerIndex, 0) + size_t(piece.kvHead) * headBlockBytes(shape.kvType, shape.headSize);
  task.blockBytes = blockBytes_;
  task.scratch = attentionScratch_[size_t(worker)].data();
  kernels_.attend(shape.kvType, task);
}

void Model::multiply(const Linear& linear, int rows, const float* values, size_t valueStride, float* out,
                     size_t outStride) {
  const Activations x = {rows, values, valueStride, codes_.data(), codeStride_, scales_.data(), sums_.data()};
  const int panels = linear.panels();
  const int piece = std::max(1, std::min(8, panels / (pool_.threads() * 8)));
  pool_.forEach(panels, piece, [&](int begin, int end, int) {
    for (const Linear::Part& part : linear.parts) {
      const int count = part.matrix->panels();
      const int first = std::max(begin, 0), last = std::min(end, count);
      if (first < last) {
        kernels_.multiply(part.matrix->packed(), x, first, last, part.bias.empty() ? nullptr : part.bias.data(),
                          out + part.offset, outStride);
      }
      begin -= count;
      end -= count;
    }
  });
}

}  // namespace chairlift
