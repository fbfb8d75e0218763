// See model.h.

#include "cuda/model.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "cuda/adapters.h"
#include "cuda/layers/per-layer-inputs.h"
#include "cuda/layers/registry.h"

namespace chairlift {
namespace cuda {

namespace {

/** What KV leaves of the GPU's memory, or a sixteenth of all where that is less: rows of larger steps still want some. */
constexpr size_t mostSpareBytes = size_t(1) << 30;

/** Steps of up to this many rows are recorded: for more, the kernels take longer than their launches. */
constexpr int mostRecordedRows = 256;

/** Tables have room for this many words at least, or for the next power of two: then they seldom move. */
constexpr size_t leastTableWords = 4096;

constexpr int embeddingThreads = 128;

/** Numbers of rows that steps are padded to. */
int padded(int rows) {
  if (rows <= 1) return rows;
  const int step = rows <= 32 ? 8 : rows <= 64 ? 16 : rows <= 256 ? 32 : 8;
  return (rows + step - 1) / step * step;
}

int blockOfRow(const StepInput& input, size_t sequence, int position) {
  return input.blocks[size_t(input.blockStarts[sequence]) + size_t(position / blockTokens)];
}

}  // namespace

CudaModel::CudaModel(std::unique_ptr<Device> device, std::unique_ptr<DeviceWeights> weights, ModelParts parts, int blockCount,
                     int stateSlots)
    : device_(std::move(device)),
      weights_(std::move(weights)),
      parts_(std::move(parts)),
      blockCount_(blockCount),
      stateSlots_(stateSlots),
      work_(*device_, *weights_, parts_.kv, parts_.normEpsilon),
      recurrentSlots_(parts_.recurrentStates, stateSlots, work_),
      imageRows_(parts_, work_),
      sampler_(work_, parts_.vocabSize) {
  weights_->endFilling();
  if (parts_.finalNorm) noteNorm(*parts_.finalNorm);
  for (const Layer& layer : parts_.layers) {
    for (const Branch& branch : layer.branches) {
      for (const Part& part : branch.parts) noteNorms(part);
    }
    if (!layer.altUp) continue;
    noteNorm(layer.altUp->norm);
    noteNorms(layer.altUp->perLayer);
  }
  work_.stream.stride = paddedLength(parts_.hiddenSize);
  work_.stream.size = parts_.hiddenSize;
  kvStride_ = roundUp(parts_.kv.cacheAt(parts_.kv.caches.size()), 256);
  kvBytes_ = roundUp(kvStride_ * size_t(blockCount), device_->pageBytes());
  if (kvBytes_ > 0) kv_ = static_cast<uint8_t*>(device_->reserve(kvBytes_));
  work_.kv = kv_;
  work_.kvStride = kvStride_;
}

void CudaModel::noteNorms(const Part& part) {
  if (part.input) noteNorm(*part.input);
  if (const Norm* norm = part.body->streamNorm()) noteNorm(*norm);
}

CudaModel::~CudaModel() {
  try {
    device_->wait();
  } catch (const DeviceError&) {
    // A lost device has nothing under way.
  }
  graphs_.clear();
  if (committedBytes_ > 0) device_->decommit(kv_, committedBytes_);
  if (kv_) device_->unreserve(kv_, kvBytes_);
}

bool CudaModel::commitPage() {
  const size_t page = device_->pageBytes();
  const size_t kept = std::min(mostSpareBytes, device_->totalBytes() / 16);
  if (device_->freeBytes() < page + kept || !device_->commit(kv_ + committedBytes_, page)) return false;
  committedBytes_ += page;
  return true;
}

int CudaModel::fitBlocks(int needed, int most) {
  prepared_.reset();
  const auto bytesOf = [&](int blocks) {
    return std::min(kvBytes_, roundUp(kvStride_ * size_t(std::min(blocks, blockCount_)), device_->pageBytes()));
  };
  if (bytesOf(needed) > committedBytes_) {
    while (committedBytes_ < bytesOf(needed) && commitPage()) {
    }
  } else if (bytesOf(most) < committedBytes_) {
    device_->wait();
    const size_t kept = bytesOf(most);
    device_->decommit(kv_ + kept, committedBytes_ - kept);
    committedBytes_ = kept;
  }
  capacity_ = kvStride_ == 0 ? blockCount_ : int(std::min<size_t>(size_t(blockCount_), committedBytes_ / kvStride_));
  return capacity_;
}

void CudaModel::moveBlock(int from, int to) {
  prepared_.reset();
  device_->copy(kv_ + size_t(to) * kvStride_, kv_ + size_t(from) * kvStride_, kvStride_);
}

void CudaModel::readBlock(int block, uint8_t* to) {
  device_->download(to, kv_ + size_t(block) * kvStride_, blockBytes());
  device_->wait();
}

void CudaModel::writeBlock(int block, const uint8_t* from) { device_->upload(kv_ + size_t(block) * kvStride_, from, blockBytes()); }

CudaModel::Shape CudaModel::shapeOf(const StepInput& input, const SamplingInput* sampling) const {
  const AttentionLoad attention = attentionLoad(allSequences(input));
  return {padded(int(input.tokens.size())),
          padded(int(input.logitRows.size())),
          padded(int(input.stateRows.size())),
          attention.fewSegments,
          attention.fewRows,
          attention.hasMany,
          padded(int(input.recurrentFrom.size())),
          work_.adapters.used.empty() ? -1 : work_.adapters.used.front(),
          sampling ? sampling->lists : -1,
          turnsOtherwise(input)};
}

bool CudaModel::canRecord(const StepInput& input, const Shape& shape) const {
  // Several adapters at once make more shapes than are worth recording, and so do images.
  return shape.rows <= mostRecordedRows && work_.adapters.used.size() <= 1 && !imageRows_.isIn(input);
}

void CudaModel::prepare(const StepInput& input, const SamplingInput* sampling, const Shape& shape) {
  const size_t rows = size_t(shape.rows), wanted = size_t(shape.logitRows), kept = size_t(shape.stateRows);
  const size_t turnsAt = 3 * rows + wanted + kept, placeAt = turnsAt + (shape.isTurned ? 3 * rows : 0);
  const size_t tablesAt = placeAt + 2, jobsAt = tablesAt + input.blocks.size();
  words_.assign(jobsAt, 0);
  if (sampling) {
    words_[placeAt] = int32_t(jobsAt - placeAt);
    words_[placeAt + 1] = sampling->rows;
    words_.insert(words_.end(), sampling->words.begin(), sampling->words.end());
  }
  int32_t* const tokens = words_.data();
  int32_t* const positions = tokens + rows;
  int32_t* const blocks = positions + rows;
  int32_t* const logitRows = blocks + rows;
  int32_t* const stateRows = logitRows + wanted;
  std::fill(blocks, blocks + rows, -1);
  std::copy(input.tokens.begin(), input.tokens.end(), tokens);
  if (parts_.perLayerInputs) {
    for (const int32_t row : input.images.rows) tokens[row] = parts_.perLayerInputs->imageToken;
  }
  if (shape.isTurned) std::copy(input.rotaryPositions.begin(), input.rotaryPositions.end(), words_.begin() + std::ptrdiff_t(turnsAt));
  std::copy(input.logitRows.begin(), input.logitRows.end(), logitRows);
  std::copy(input.stateRows.begin(), input.stateRows.end(), stateRows);
  std::copy(input.blocks.begin(), input.blocks.end(), words_.begin() + std::ptrdiff_t(tablesAt));
  int end = 0;
  for (size_t sequence = 0; sequence + 1 < input.rowStarts.size(); sequence++) {
    const int first = input.rowStarts[sequence], after = input.rowStarts[sequence + 1], start = input.starts[sequence];
    for (int row = first; row < after; row++) {
      positions[row] = start + row - first;
      blocks[row] = blockOfRow(input, sequence, positions[row]);
    }
    end = std::max(end, start + after - first);
  }
  if (shape.isTurned) end = std::max(end, *std::max_element(input.rotaryPositions.begin(), input.rotaryPositions.end()) + 1);
  // Room for the tables of longer sequences, so that steps of one shape keep their addresses.
  size_t room = leastTableWords;
  while (room < words_.size()) room *= 2;
  auto* device = tables_.room(work_, room * sizeof(int32_t)).as<int32_t>();
  device_->upload(device, words_.data(), words_.size() * sizeof(int32_t));
  work_.rows = shape.rows;
  work_.extendPositions(end);
  work_.attention.beginStep(work_, imageRows_.sequencesOf(input), input.blocks.data());
  work_.tables = {device, device + rows, device + 2 * rows, device + tablesAt, device + 3 * rows, device + 3 * rows + wanted};
  recurrentSlots_.beginStep(input, shape.rows, shape.sequences);
  adapterTable_.beginStep(input, shape.rows, work_);
  work_.stream.x = work_.scratch("stream", work_.stream.stride);
  for (size_t kind = 0; kind < 2; kind++) {
    if (readsStream_[kind]) work_.stream.scales[kind] = reinterpret_cast<Scale*>(work_.scratch(kind ? "layerScales" : "rmsScales", 2));
  }
  work_.rotations.clear();
  work_.rotationPairs.clear();
  for (size_t i = 0; i < parts_.ropes.size(); i++) {
    const Rope& rope = parts_.ropes[i];
    const size_t pairs = rope.pairs();
    work_.rotations.push_back(work_.byPosition("rope " + std::to_string(i), 2 * pairs, [&rope, pairs](int position, float* to) {
      for (size_t pair = 0; pair < pairs; pair++) {
        const double angle = double(position) * rope.inverseFrequencies[pair];
        to[pair] = float(std::cos(angle) * double(rope.magnitude));
        to[pairs + pair] = float(std::sin(angle) * double(rope.magnitude));
      }
    }));
    work_.rotationPairs.push_back(int(pairs));
  }
  imageRows_.beginStep(input, shape.isTurned ? device + turnsAt : nullptr);
  logits_.room(work_, wanted * size_t(parts_.vocabSize) * sizeof(float));
  states_.room(work_, kept * size_t(parts_.hiddenSize) * sizeof(float));
  samplingJobs_ = device + placeAt;
  if (sampling) sampler_.prepare(shape.logitRows, shape.lists);
}

void CudaModel::run(const StepInput& input, const SamplingInput* sampling) {
  prepared_.reset();
  lastLogitRows_ = int(input.logitRows.size());
  work_.adapters.used = usedAdapters(input);
  const Shape shape = shapeOf(input, sampling);
  prepare(input, sampling, shape);
  if (!canRecord(input, shape)) {
    launchStep(shape);
  } else {
    Recorded& recorded = graphs_[shape];
    if (!recorded.graph || recorded.generation != work_.generation) {
      // The first step of a shape makes room for everything; then its launches have the addresses of all that follow.
      launchStep(shape);
      recorded.graph.reset();
      recorded.generation = work_.generation;
      recorded.graph = device_->record([&] { launchStep(shape); });
    } else {
      device_->replay(*recorded.graph);
    }
  }
}

void CudaModel::step(const StepInput& input, float* logits, float* states) {
  run(input, nullptr);
  const size_t logitBytes = input.logitRows.size() * size_t(parts_.vocabSize) * sizeof(float);
  const size_t stateBytes = input.stateRows.size() * size_t(parts_.hiddenSize) * sizeof(float);
  if (logitBytes > 0) device_->download(logits, logits_.room(work_, 0).as<float>(), logitBytes);
  if (stateBytes > 0) device_->download(states, states_.room(work_, 0).as<float>(), stateBytes);
  device_->wait();
}

std::map<std::string, KernelTime> CudaModel::profile(const StepInput& input) {
  work_.adapters.used = usedAdapters(input);
  const Shape shape = shapeOf(input, nullptr);
  prepare(input, nullptr, shape);
  launchStep(shape);
  device_->wait();
  return device_->profile([&] { launchStep(shape); });
}

void CudaModel::start(const StepInput& input, const SamplingInput& sampling, uint32_t* found, float* states) {
  run(input, &sampling);
  const size_t stateBytes = input.stateRows.size() * size_t(parts_.hiddenSize) * sizeof(float);
  if (sampling.rows > 0) sampler_.download(found, sampling.rows, sampling.lists);
  if (stateBytes > 0) device_->download(states, states_.room(work_, 0).as<float>(), stateBytes);
}

bool CudaModel::isRecorded(const StepInput& input, const SamplingInput& sampling) {
  work_.adapters.used = usedAdapters(input);
  const Shape shape = shapeOf(input, &sampling);
  const auto found = graphs_.find(shape);
  return canRecord(input, shape) && found != graphs_.end() && found->second.graph &&
         found->second.generation == work_.generation;
}

bool CudaModel::prepareNext(const StepInput& input, const SamplingInput& sampling) {
  prepared_.reset();
  if (!input.stateRows.empty() || !isRecorded(input, sampling)) return false;
  const Shape shape = shapeOf(input, &sampling);
  prepare(input, &sampling, shape);
  const Recorded& recorded = graphs_.at(shape);
  // Longer tables may have moved.
  if (recorded.generation != work_.generation) return false;
  prepared_ = Prepared{recorded.graph.get(), input.tokens.size(), sampling.rows, sampling.lists};
  return true;
}

void CudaModel::startPrepared(const std::vector<int32_t>& tokens, uint32_t* found) {
  if (!prepared_ || prepared_->tokens != tokens.size()) throw std::runtime_error("no such step is prepared");
  const Prepared own = *prepared_;
  prepared_.reset();
  lastLogitRows_ = own.logitRows;
  // They are the first of the tables.
  device_->upload(tables_.as<int32_t>(), tokens.data(), tokens.size() * sizeof(int32_t));
  device_->replay(*own.graph);
  sampler_.download(found, own.logitRows, own.lists);
}

void CudaModel::readLogits(const std::vector<int32_t>& rows, float* to) {
  const size_t vocabSize = size_t(parts_.vocabSize);
  const float* const logits = logits_.room(work_, 0).as<float>();
  for (size_t i = 0; i < rows.size(); i++) {
    if (rows[i] < 0 || rows[i] >= lastLogitRows_) throw std::runtime_error("logits of a row that the last step did not want");
    device_->download(to + i * vocabSize, logits + size_t(rows[i]) * vocabSize, vocabSize * sizeof(float));
  }
  device_->wait();
}

void CudaModel::launchStep(const Shape& shape) {
  work_.adapters.gathered.clear();
  work_.multiplier.dropNextInput();
  imageRows_.turn();
  embed();
  if (parts_.perLayerInputs) makePerLayerInputs(*parts_.perLayerInputs, work_);
  if (parts_.altUp) altUp_.emplace(*parts_.altUp, work_).spread();
  for (size_t i = 0; i < parts_.layers.size(); i++) {
    launchLayer(i);
    imageRows_.addAfter(i);
  }
  if (altUp_) altUp_->gather();
  launchHead(shape);
}

const Norm* CudaModel::normAfter(size_t layer, size_t branch) const {
  const Layer& own = parts_.layers[layer];
  const Branch* next = nullptr;
  if (branch + 1 < own.branches.size()) {
    next = &own.branches[branch + 1];
  } else if (layer + 1 < parts_.layers.size() && !imageRows_.addsAfter(layer) && !own.altUp && !parts_.layers[layer + 1].altUp) {
    const std::vector<Branch>& branches = parts_.layers[layer + 1].branches;
    if (!branches.empty()) next = &branches[0];
  }
  if (!next || next->parts.empty()) return nullptr;
  const Part& part = next->parts[0];
  const Linear* const linear = part.body->inputLinear();
  return part.input && linear && linear->readsCodes() && !linear->readsValues() ? &*part.input : nullptr;
}

void CudaModel::launchLayer(size_t index) {
  const Layer& layer = parts_.layers[index];
  if (layer.altUp) altUp_->predict(*layer.altUp);
  for (size_t i = 0; i < layer.branches.size(); i++) launchBranch(layer.branches[i], normAfter(index, i));
  if (!layer.altUp) return;
  altUp_->correct(*layer.altUp);
  altUp_->addPerLayer(*layer.altUp);
}

void CudaModel::embed() {
  // Adapters add to embeddings before they are scaled.
  const bool isAdapted = work_.adapters.useAny(parts_.embeddingAdditions);
  const EmbedArgs args{weights_->matrix(*parts_.embedding), work_.tables.tokens, isAdapted ? 1.0f : parts_.embeddingScale,
                       work_.stream.x, int64_t(work_.stream.stride), parts_.hiddenSize};
  launchEmbedding(args);
  if (isAdapted) embedAdapted();
  if (isAdapted || parts_.positions || !parts_.textKind.empty() || parts_.embeddingNorm) {
    FinishEmbeddingArgs finish{};
    finish.x = work_.stream.x;
    finish.stride = int64_t(work_.stream.stride);
    finish.size = parts_.hiddenSize;
    finish.scale = isAdapted ? parts_.embeddingScale : 1.0f;
    finish.textKind = weights_->vector(parts_.textKind);
    if (parts_.positions) {
      finish.positions = work_.tables.positions;
      finish.table = weights_->matrix(*parts_.positions);
    }
    finish.norm = work_.maybeNorm(parts_.embeddingNorm);
    device_->launch("finish_embedding", {work_.rows, 1, 256, (size_t(parts_.hiddenSize) + 64) * sizeof(float)}, finish);
  }
  imageRows_.embed();
  work_.measureStream();
}

void CudaModel::launchEmbedding(const EmbedArgs& args) {
  constexpr int valuesOfBlock = 4 * embeddingThreads;
  device_->launch("embed_rows", {work_.rows, (args.size + valuesOfBlock - 1) / valuesOfBlock, embeddingThreads, 0}, args);
}

void CudaModel::embedAdapted() {
  for (const EmbeddingAddition& addition : parts_.embeddingAdditions) {
    if (!work_.adapters.uses(addition.adapter)) continue;
    const size_t stride = paddedLength(addition.rank), addedStride = paddedLength(parts_.hiddenSize);
    float* const own = work_.scratch("reduced", stride);
    float* const added = work_.scratch("added", addedStride);
    const EmbedArgs table{weights_->matrix(*addition.table), work_.tables.tokens, 1.0f, own, int64_t(stride), addition.rank};
    launchEmbedding(table);
    const AdaptedRows adapted = adaptedRows(addition.adapter, work_.rows, work_);
    Input seen{own, stride, addition.rank};
    seen.places = adapted.places;
    work_.multiplier.apply(addition.up, seen, work_.rows, added, addedStride, adapted.tiles);
    AddAdaptedArgs args{};
    args.added = added;
    args.addedStride = int64_t(addedStride);
    args.scale = addition.scale;
    args.outputs = parts_.hiddenSize;
    args.out = work_.stream.x;
    args.outStride = int64_t(work_.stream.stride);
    addAdapted(adapted, args, work_);
  }
}

void CudaModel::launchBranch(const Branch& branch, const Norm* next) {
  const size_t stride = work_.stream.stride;
  float* const sum = work_.scratch("branch", stride);
  for (size_t i = 0; i < branch.parts.size(); i++) {
    const Part& part = branch.parts[i];
    const bool isLast = i + 1 == branch.parts.size();
    float* const out = i == 0 ? sum : work_.scratch("part", stride);
    // The first of several parts without a norm is the branch as it stands.
    const bool isFinished = i > 0 || isLast || part.output;
    work_.leavesMixture = isFinished;
    work_.mixture = {};
    launchBody(*part.body, part.input ? work_.stream.normalized(*part.input) : work_.stream.rows(), work_, out);
    work_.leavesMixture = false;
    if (!isFinished) continue;
    FinishPartArgs args{};
    args.part = out;
    args.mixture = work_.mixture;
    args.branch = i == 0 ? nullptr : sum;
    args.kept = sum;
    args.stream = work_.stream.x;
    args.stride = int64_t(stride);
    args.size = parts_.hiddenSize;
    args.partNorm = work_.maybeNorm(part.output);
    args.isLast = isLast;
    if (isLast) {
      args.branchNorm = work_.maybeNorm(branch.output);
      args.streamNorm = work_.maybeNorm(branch.streamNorm);
      work_.multiplier.dropNextInput();
      if (next) {
        args.nextNorm = work_.norm(*next);
        args.next = work_.multiplier.nextInput(*next);
      }
    }
    args.scale = branch.scale;
    args.streamScale = branch.streamScale;
    args.epsilon = parts_.normEpsilon;
    for (size_t kind = 0; kind < 2; kind++) args.scales[kind] = work_.stream.scales[kind];
    const size_t shared = (paddedLength(parts_.hiddenSize) + 64) * sizeof(float);
    const std::string kernel = args.mixture.given ? "finish_mixture" : "finish_part";
    // A row alone is done sooner by more threads; with several, blocks would wait for room.
    const int threads = !args.mixture.given && args.isPlain() && work_.rows == 1 ? 1024 : 512;
    device_->launch((args.isPlain() ? kernel + "_plain" : kernel).c_str(), {work_.rows, 1, threads, shared}, args);
  }
}

void CudaModel::launchHead(const Shape& shape) {
  if (shape.stateRows > 0) {
    GatherRowsArgs args{work_.stream.x, int64_t(work_.stream.stride), work_.tables.stateRows,
                        parts_.finalNorm ? work_.stream.scales[size_t(parts_.finalNorm->kind)] : nullptr,
                        work_.maybeNorm(parts_.finalNorm), parts_.hiddenSize, states_.room(work_, 0).as<float>(),
                        parts_.hiddenSize};
    device_->launch("gather_rows", {shape.stateRows, 1, 256, 0}, args);
  }
  if (shape.logitRows == 0) return;
  Input seen = parts_.finalNorm ? work_.stream.normalized(*parts_.finalNorm) : work_.stream.rows();
  seen.places = work_.tables.logitRows;
  float* const logits = logits_.room(work_, 0).as<float>();
  work_.multiplier.apply(parts_.head, seen, shape.logitRows, logits, size_t(parts_.vocabSize));
  if (parts_.logitScale != 1.0f || parts_.logitSoftcap != 0.0f) {
    const int64_t count = int64_t(shape.logitRows) * parts_.vocabSize;
    ScaleLogitsArgs args{logits, count, parts_.logitScale, parts_.logitSoftcap};
    device_->launch("scale_logits", {int(std::min<int64_t>(1024, (count + 255) / 256)), 1, 256, 0}, args);
  }
  if (shape.lists >= 0) sampler_.launch(logits, shape.logitRows, shape.lists, samplingJobs_);
}

}  // namespace cuda
}  // namespace chairlift
