// One forward pass over a batch: a chain of loops, each shared among all threads.

#include "model/model.h"

#include <algorithm>

namespace chairlift {

void Model::step(const StepInput& input, float* logits, float* states) {
  const StepMark mark(pool_->timeline());
  prepare(input);
  embed(input.tokens);
  if (!input.images.rows.empty()) embedImages(input.images);
  if (parts_.perLayerInputs) makePerLayerInputs(*parts_.perLayerInputs, input.tokens, work_);
  if (altUp_) altUp_->spread();
  for (size_t i = 0; i < parts_.layers.size(); i++) {
    if (parts_.mtp) takeFeatures(int(i));
    runLayer(parts_.layers[i]);
    if (i < input.images.deepstack.size()) addToImages(input.images.rows, input.images.deepstack[i]);
  }
  if (altUp_) altUp_->gather();
  takeStates(input, states);
  runHead(input, logits);
  if (parts_.mtp) feedMtp(input);
}

void Model::embed(const std::vector<int32_t>& tokens) {
  const size_t rows = tokens.size(), stride = work_.stream.stride;
  float* const places = parts_.positions ? branchRows_.rows(rows, stride) : nullptr;
  const bool isAdapted = !parts_.embeddingAdditions.empty() && work_.multiplier.usesAdapters();
  if (isAdapted) embedAdapted(tokens);
  pool_->forEachOne("embed", int(rows), [&](int row) {
    float* x = work_.stream.row(row);
    if (!isAdapted) parts_.embedding->unpackRow(tokens[size_t(row)], x);
    if (parts_.embeddingScale != 1.0f) {
      for (int i = 0; i < parts_.hiddenSize; i++) x[i] *= parts_.embeddingScale;
    }
    addToEmbedding(row, places ? places + size_t(row) * stride : nullptr);
    work_.batch.turn(row, parts_.ropes);
    work_.measure(row);
  });
}

void Model::embedImages(const ImageRows& images) {
  const size_t size = size_t(parts_.hiddenSize);
  pool_->forEachOne("embed images", int(images.rows.size()), [&](int i) {
    const int row = images.rows[size_t(i)];
    std::copy_n(images.embeddings + size_t(i) * size, size, work_.stream.row(row));
    work_.measure(row);
  });
}

void Model::addToImages(const std::vector<int32_t>& rows, const float* added) {
  pool_->forEachOne("add to images", int(rows.size()), [&](int i) {
    const int row = rows[size_t(i)];
    work_.kernels.addScaled(work_.stream.row(row), added + size_t(i) * size_t(parts_.hiddenSize), 1.0f, parts_.hiddenSize);
    work_.measure(row);
  });
}

/** Embeds tokens with what adapters add. */
void Model::embedAdapted(const std::vector<int32_t>& tokens) {
  const size_t addedStride = paddedLength(parts_.hiddenSize);
  pool_->forEachOne("embed", int(tokens.size()),
                    [&](int row) { parts_.embedding->unpackRow(tokens[size_t(row)], work_.stream.row(row)); });
  for (const EmbeddingAddition& addition : parts_.embeddingAdditions) {
    std::vector<int32_t> rows;
    for (int row = 0; row < int(tokens.size()); row++) {
      if (work_.multiplier.adapterOf(row) == addition.adapter) rows.push_back(row);
    }
    const size_t stride = paddedLength(addition.rank);
    float* const own = tokenRows_.rows(rows.size(), stride);
    float* const added = addedRows_.rows(rows.size(), addedStride);
    pool_->forEachOne("embed", int(rows.size()), [&](int i) {
      addition.table->unpackRow(tokens[size_t(rows[size_t(i)])], own + size_t(i) * stride);
    });
    work_.multiplier.apply(addition.up, {own, stride, addition.rank}, int(rows.size()), added, addedStride);
    pool_->forEachOne("embed", int(rows.size()), [&](int i) {
      work_.kernels.addScaled(work_.stream.row(rows[size_t(i)]), added + size_t(i) * addedStride, addition.scale,
                              parts_.hiddenSize);
    });
  }
}

/** `place` is room for the row of the position table; null without one. */
void Model::addToEmbedding(int row, float* place) {
  const int size = parts_.hiddenSize;
  float* const x = work_.stream.row(row);
  if (!parts_.textKind.empty()) work_.kernels.addScaled(x, parts_.textKind.data(), 1.0f, size);
  if (place) {
    parts_.positions->unpackRow(work_.batch.position(row), place);
    work_.kernels.addScaled(x, place, 1.0f, size);
  }
  if (parts_.embeddingNorm) parts_.embeddingNorm->apply(work_.kernels, x, size, parts_.normEpsilon);
}

void Model::runLayer(const Layer& layer) {
  if (layer.altUp) altUp_->predict(*layer.altUp);
  for (const Branch& branch : layer.branches) runBranch(branch);
  if (!layer.altUp) return;
  altUp_->correct(*layer.altUp);
  altUp_->addPerLayer(*layer.altUp);
}

void Model::runBranch(const Branch& branch, const InputRows* given) {
  const int rows = work_.batch.count(), size = parts_.hiddenSize;
  const size_t stride = work_.stream.stride;
  const KernelTable& kernels = work_.kernels;
  float* const sum = branchRows_.rows(size_t(rows), stride);
  for (size_t i = 0; i < branch.parts.size(); i++) {
    const Part& part = branch.parts[i];
    float* const out = i == 0 ? sum : partRows_.rows(size_t(rows), stride);
    if (given) part.body->run(*given, work_, out);
    else part.run(work_, out);
    const bool isLast = i + 1 == branch.parts.size();
    pool_->forEachOne("add to the stream", rows, [&](int row) {
      float* own = out + size_t(row) * stride;
      float* all = sum + size_t(row) * stride;
      if (part.output) part.output->apply(kernels, own, size, work_.normEpsilon);
      if (i > 0) kernels.addScaled(all, own, 1.0f, size);
      if (!isLast) return;
      if (branch.output) branch.output->apply(kernels, all, size, work_.normEpsilon);
      kernels.addScaled(work_.stream.row(row), all, branch.scale, size);
      if (branch.streamScale != 1.0f) {
        for (int at = 0; at < size; at++) work_.stream.row(row)[at] *= branch.streamScale;
      }
      if (branch.streamNorm) branch.streamNorm->apply(kernels, work_.stream.row(row), size, work_.normEpsilon);
      work_.measure(row);
    });
  }
}

void Model::takeStates(const StepInput& input, float* states) {
  const size_t size = size_t(parts_.hiddenSize);
  pool_->forEachOne("copy states", int(input.stateRows.size()), [&](int i) {
    const int row = input.stateRows[size_t(i)];
    float* const state = states + size_t(i) * size;
    if (!parts_.finalNorm) {
      std::copy_n(work_.stream.row(row), size, state);
      return;
    }
    const Norm& norm = *parts_.finalNorm;
    work_.kernels.normalize(work_.stream.row(row), work_.stream.scalesOf(norm.kind)[row], norm.weight.data(),
                            norm.biasOrNull(), state, parts_.hiddenSize);
  });
}

void Model::runHead(const StepInput& input, float* logits) {
  InputRows states = parts_.finalNorm ? work_.stream.normalized(*parts_.finalNorm) : work_.stream.rows();
  states.places = input.logitRows.data();
  runHead(parts_.head, states, int(input.logitRows.size()), logits);
}

void Model::runHead(const Linear& head, const InputRows& states, int rows, float* logits) {
  const int vocabSize = parts_.vocabSize;
  work_.multiplier.apply(head, states, rows, logits, size_t(vocabSize));
  if (parts_.logitScale == 1.0f && parts_.logitSoftcap == 0.0f) return;
  pool_->forEachOne("scale logits", rows, [&](int i) {
    float* row = logits + size_t(i) * size_t(vocabSize);
    for (int token = 0; token < vocabSize; token++) row[token] *= parts_.logitScale;
    if (parts_.logitSoftcap > 0) work_.kernels.softcapInPlace(row, vocabSize, parts_.logitSoftcap);
  });
}

}  // namespace chairlift
