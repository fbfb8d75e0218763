// One forward pass over a batch: a chain of loops, each shared out among all threads.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "model/model.h"

namespace chairlift {

template <class Run>
void Model::eachRow(int rows, const Run& run) {
  pool_->forEach(rows, 1, [&](int begin, int end, int) {
    for (int row = begin; row < end; row++) run(row);
  });
}

void Model::step(const StepInput& input, float* logits, float* states) {
  prepare(input);
  const int rows = int(input.tokens.size());
  eachRow(rows, [&](int row) {
    embed(input, row);
    factors_[size_t(row)] = rmsFactor(row);
  });
  for (int layer = 0; layer < int(layers.size()); layer++) runLayer(input, layer);
  takeStates(input, states);
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

  multiply(layer.qkv, makeInput(rows, normalized(layer.attentionNorm), layer.qkv), qkv_.data(), qkvStride_);
  eachRow(rows, [&](int row) { rotateAndStore(input, layer, index, row); });
  pool_->forEach(int(pieces_.size()), 1, [&](int begin, int end, int worker) {
    for (int p = begin; p < end; p++) attend(input, layer, index, pieces_[size_t(p)], worker);
  });
  const InputSource attended = {attended_.data(), attentionStride_, shape.headCount * shape.headSize};
  multiply(layer.output, makeInput(rows, attended, layer.output), branch_.data(), hiddenStride_);
  eachRow(rows, [&](int row) { addBranch(row, layer.attentionPostNorm); });

  multiply(layer.gateUp, makeInput(rows, normalized(layer.ffnNorm), layer.gateUp), gateUp_.data(), 2 * ffnStride_);
  float* const up = gateUp_.data() + ffnStride_;
  const InputSource gated = {gateUp_.data(), 2 * ffnStride_, shape.ffnSize, nullptr, nullptr, up};
  multiply(layer.down, makeInput(rows, gated, layer.down), branch_.data(), hiddenStride_);
  eachRow(rows, [&](int row) { addBranch(row, layer.ffnPostNorm); });
}

void Model::takeStates(const StepInput& input, float* states) {
  eachRow(int(input.stateRows.size()), [&](int i) {
    const size_t row = size_t(input.stateRows[size_t(i)]), size = size_t(shape.hiddenSize);
    // By way of a padded row, where nothing needs the branches any more: kernels write whole vectors.
    float* padded = &branch_[size_t(i) * hiddenStride_];
    kernels_.scaleRow(&residual_[row * hiddenStride_], finalNorm.data(), factors_[row], padded, shape.hiddenSize);
    memcpy(states + size_t(i) * size, padded, size * sizeof(float));
  });
}

void Model::runHead(const StepInput& input, float* logits) {
  const int wanted = int(input.logitRows.size());
  if (wanted == 0) return;
  // The wanted rows side by side, where nothing needs the branches any more.
  std::vector<float> factors(static_cast<size_t>(wanted));
  eachRow(wanted, [&](int i) {
    const size_t row = size_t(input.logitRows[size_t(i)]);
    memcpy(&branch_[size_t(i) * hiddenStride_], &residual_[row * hiddenStride_], hiddenStride_ * sizeof(float));
    factors[size_t(i)] = factors_[row];
  });
  const InputSource normed = {branch_.data(), hiddenStride_, shape.hiddenSize, finalNorm.data(), factors.data()};
  multiply(head, makeInput(wanted, normed, head), logits, size_t(shape.vocabSize));
  if (shape.logitSoftcap <= 0) return;
  eachRow(wanted, [&](int i) {
    kernels_.softcapInPlace(logits + size_t(i) * size_t(shape.vocabSize), shape.vocabSize, shape.logitSoftcap);
  });
}

float Model::rmsFactor(int row) const {
  return kernels_.rmsFactor(&residual_[size_t(row) * hiddenStride_], shape.hiddenSize, shape.normEpsilon);
}

void Model::addBranch(int row, const std::vector<float>& postNorm) {
  float* branch = &branch_[size_t(row) * hiddenStride_];
  if (!postNorm.empty()) {
    const float factor = kernels_.rmsFactor(branch, shape.hiddenSize, shape.normEpsilon);
    kernels_.scaleRow(branch, postNorm.data(), factor, branch, shape.hiddenSize);
  }
  kernels_.addTo(&residual_[size_t(row) * hiddenStride_], branch, shape.hiddenSize);
  factors_[size_t(row)] = rmsFactor(row);
}

Model::InputSource Model::normalized(const std::vector<float>& norm) {
  return {residual_.data(), hiddenStride_, shape.hiddenSize, norm.data(), factors_.data()};
}

Activations Model::makeInput(int rows, const InputSource& source, const Linear& reader) {
  const int groups = (source.count + groupInputs - 1) / groupInputs;
  const bool codes = reader.readsCodes(), values = reader.readsValues();
  // Rows as they are need no copy; gated ones are written over the gate.
  const bool copies = source.weight != nullptr, writes = copies || source.up;
  float* const to = copies ? normed_.data() : source.x;
  const Activations input = {rows, to, copies ? hiddenStride_ : source.stride, codes_.as<int8_t>(),
                             sides_.as<GroupSide>(), size_t(groups)};
  if (!codes && !writes) return input;
  const int tiles = (rows + tileRows - 1) / tileRows;
  // Pieces of one tile go to different threads: all its rows, some of its groups, so that no line of memory is
  // written by two.
  const int groupsPerPiece = std::max(4, 128 / std::min(rows, tileRows));
  const int pieces = (groups + groupsPerPiece - 1) / groupsPerPiece;
  pool_->forEach(tiles * pieces, 1, [&](int begin, int end, int) {
    for (int piece = begin; piece < end; piece++) {
      const size_t tile = size_t(piece / pieces), row = tile * tileRows;
      InputTask task{};
      task.rows = std::min(tileRows, rows - int(row));
      task.firstGroup = piece % pieces * groupsPerPiece;
      task.endGroup = std::min(groups, task.firstGroup + groupsPerPiece);
      task.x = source.x + row * source.stride;
      task.stride = source.stride;
      task.weight = source.weight;
      task.factors = source.factors ? source.factors + row : nullptr;
      task.up = source.up ? source.up + row * source.stride : nullptr;
      task.activation = shape.activation;
      task.values = values && writes ? to + row * input.valueStride : nullptr;
      task.valueStride = input.valueStride;
      task.codes = codes ? codes_.as<int8_t>() + tile * size_t(groups) * groupCodes : nullptr;
      task.sides = sides_.as<GroupSide>() + tile * size_t(groups);
      task.paired = kernels_.pairs(task.rows, groups);
      kernels_.makeInput(task);
    }
  });
  return input;
}

void Model::normalizeHead(float* values, const std::vector<float>& weight, float* padded) const {
  if (weight.empty()) return;
  const size_t bytes = size_t(shape.headSize) * sizeof(float);
  memset(padded, 0, weight.size() * sizeof(float));
  memcpy(padded, values, bytes);
  kernels_.scaleRow(padded, weight.data(), kernels_.rmsFactor(padded, shape.headSize, shape.normEpsilon), padded,
                    shape.headSize);
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
    kernels_.storeKv(shape.kvType, keys + head * shape.headSize, values + head * shape.headSize, shape.headSize,
                     position % blockTokens, kv_.at(block, layerIndex, head));
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
  task.base = kv_.at(0, layerIndex, piece.kvHead);
  task.blockStride = kv_.stride();
  task.scratch = attentionScratch_[size_t(worker)].data();
  kernels_.attend(shape.kvType, task);
}

void Model::multiply(const Linear& linear, const Activations& input, float* out, size_t outStride) {
  // In runs, because what is asked for in advance goes past a piece's end.
  pool_->forEachInRuns(linear.panels(), 2, [&](int begin, int end, int) {
    for (const Linear::Part& part : linear.parts) {
      const int count = part.matrix->panels();
      const int first = std::max(begin, 0), last = std::min(end, count);
      if (first < last) {
        kernels_.multiply(part.matrix->packed(), input, first, last, part.bias.empty() ? nullptr : part.bias.data(),
                          out + part.offset, outStride);
      }
      begin -= count;
      end -= count;
    }
  });
}

}  // namespace chairlift
