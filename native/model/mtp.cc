// What an MTP head adds to the forward pass. At position p it reads the token there and the model's state of position p - 1, so
// that what a block holds of it follows from the tokens up to the block's end, as all else that a block holds. Blocks keep
// the states of their last positions for the step that goes on from there.

#include <algorithm>
#include <limits>

#include "kernels/float-bits.h"
#include "model/model.h"

namespace chairlift {

namespace {

/** To the nearest bfloat16, ties to even; NaN stays NaN. */
uint16_t toBf16(float value) {
  const uint32_t bits = floatToBits(value);
  if (value != value) return uint16_t(bits >> 16 | 64);
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

void widen(const uint16_t* from, int count, float* to) {
  for (int i = 0; i < count; i++) to[i] = bf16ToFloat(from[i]);
}

}  // namespace

/** What states are made of: the residual stream after given numbers of layers. */
void Model::takeFeatures(int layers) {
  const std::optional<Features>& features = parts_.mtp->features;
  if (!features) return;
  const int rows = work_.batch.count(), size = parts_.hiddenSize;
  const size_t stride = paddedLength(int(features->after.size()) * size);
  float* const taken = featureRows_.rows(size_t(rows), stride);
  for (size_t i = 0; i < features->after.size(); i++) {
    if (features->after[i] != layers) continue;
    pool_->forEachOne("take features", rows, [&](int row) {
      std::copy_n(work_.stream.row(row), size, taken + size_t(row) * stride + i * size_t(size));
    });
  }
}

/** Stores keys and values of the head for all rows of a step, and their states for the step after it. */
void Model::feedMtp(const StepInput& input) {
  const Mtp& mtp = *parts_.mtp;
  const int rows = work_.batch.count();
  const size_t stride = work_.stream.stride;
  float* const states = finalStates_.rows(size_t(rows), stride);
  if (mtp.features) {
    const int count = int(mtp.features->after.size()) * parts_.hiddenSize;
    const size_t taken = paddedLength(count);
    work_.multiplier.apply(mtp.features->projection, {featureRows_.rows(size_t(rows), taken), taken, count}, rows, states,
                           stride);
  }
  pool_->forEachOne("copy states", rows, [&](int row) {
    float* const state = states + size_t(row) * stride;
    if (!mtp.features) takeMtpState(row, *parts_.finalNorm, state);
    // As a step would find it that begins behind this row.
    for (int i = 0; i < parts_.hiddenSize; i++) state[i] = bf16ToFloat(toBf16(state[i]));
  });
  // The residual stream is made anew.
  embedForMtp(input);
  const InputRows joined = joinForMtp(states);
  const Part& attention = mtp.layer.branches[0].parts[0];
  attention.body->store(mtp.projection ? work_.stream.normalized(*attention.input) : joined, work_);
  pool_->forEachOne("keep states", rows, [&](int row) {
    const int place = work_.batch.position(row) % blockTokens, later = work_.batch.rowsAfter(row);
    // Later rows of the block take the places of earlier ones.
    if (later < keptStates || place + keptStates >= blockTokens) keepState(row, states + size_t(row) * stride);
  });
}

void Model::predict(const StepInput& input, float* logits) {
  const Mtp& mtp = *parts_.mtp;
  prepare(input);
  embedForMtp(input);
  runMtpLayer(joinForMtp(nullptr));
  const int rows = work_.batch.count();
  float* const states = finalStates_.rows(size_t(rows), work_.stream.stride);
  pool_->forEachOne("keep states", rows, [&](int row) {
    float* const state = states + size_t(row) * work_.stream.stride;
    takeMtpState(row, mtp.finalNorm, state);
    keepState(row, state);
  });
  runMtpHead(rows, logits);
}

void Model::runMtpLayer(const InputRows& joined) {
  const Mtp& mtp = *parts_.mtp;
  if (mtp.projection) return runLayer(mtp.layer);
  const std::vector<Branch>& branches = mtp.layer.branches;
  for (size_t i = 0; i < branches.size(); i++) runBranch(branches[i], i == 0 ? &joined : nullptr);
}

void Model::runMtpHead(int rows, float* logits) {
  const Mtp& mtp = *parts_.mtp;
  const InputRows states = work_.stream.normalized(mtp.finalNorm);
  if (mtp.tokens.empty()) return runHead(mtp.output ? *mtp.output : parts_.head, states, rows, logits);
  const size_t stride = paddedLength(int(mtp.tokens.size())), all = size_t(parts_.vocabSize);
  float* const few = fewLogits_.rows(size_t(rows), stride);
  work_.multiplier.apply(*mtp.output, states, rows, few, stride);
  pool_->forEachOne("spread logits", rows, [&](int row) {
    float* const own = logits + size_t(row) * all;
    std::fill_n(own, all, -std::numeric_limits<float>::infinity());
    for (size_t i = 0; i < mtp.tokens.size(); i++) own[mtp.tokens[i]] = few[size_t(row) * stride + i];
  });
}

/** From the residual stream; `norm` is the last one. */
void Model::takeMtpState(int row, const Norm& norm, float* state) const {
  const float* const x = work_.stream.row(row);
  if (parts_.mtp->beforeNorm) {
    std::copy_n(x, parts_.hiddenSize, state);
  } else {
    work_.kernels.normalize(x, work_.stream.scalesOf(norm.kind)[row], norm.weight.data(), norm.biasOrNull(), state,
                            parts_.hiddenSize);
  }
}

/** Also turns the rotations of the rows. */
void Model::embedForMtp(const StepInput& input) {
  embed(input.tokens);
  if (const Matrix* own = parts_.mtp->embedding.get()) {
    pool_->forEachOne("embed", work_.batch.count(),
                      [&](int row) { own->unpackRow(input.tokens[size_t(row)], work_.stream.row(row)); });
  }
  if (!input.images.rows.empty()) embedImages(input.images);
}

/**
 * From embeddings to the input of the head's layer: both side by side, and the residual stream. The state before a sequence's first
 * row is that which its block keeps; those before other rows are in `states`. Before the first position there is none: zeros, and
 * nothing sees what follows from them.
 */
InputRows Model::joinForMtp(const float* states) {
  const Mtp& mtp = *parts_.mtp;
  const int rows = work_.batch.count(), size = parts_.hiddenSize;
  const size_t stride = paddedLength(2 * size);
  float* const joined = joinedRows_.rows(size_t(rows), stride);
  work_.normEpsilon = mtp.normEpsilon;
  pool_->forEachOne("join for the MTP head", rows, [&](int row) {
    float* const both = joined + size_t(row) * stride;
    float* const embedding = mtp.stateFirst ? both + size : both;
    float* const state = mtp.stateFirst ? both : both + size;
    std::copy_n(work_.stream.row(row), size, embedding);
    mtp.embeddingNorm.apply(work_.kernels, embedding, size, work_.normEpsilon);
    const int before = work_.batch.position(row) - 1;
    if (before < 0) {
      std::fill_n(state, size, 0.0f);
    } else if (work_.batch.isFirst(row)) {
      widen(work_.kv.state(work_.batch.blockAt(row, before), before), size, state);
    } else {
      std::copy_n(states + size_t(row - 1) * work_.stream.stride, size, state);
    }
    if (!mtp.projection && !mtp.addsToNormed) std::copy_n(state, size, work_.stream.row(row));
    mtp.stateNorm.apply(work_.kernels, state, size, work_.normEpsilon);
    if (!mtp.projection && mtp.addsToNormed) std::copy_n(state, size, work_.stream.row(row));
  });
  const InputRows input{joined, stride, 2 * size};
  if (mtp.projection) work_.multiplier.apply(*mtp.projection, input, rows, work_.stream.x, work_.stream.stride);
  pool_->forEachOne("join for the MTP head", rows, [&](int row) { work_.measure(row); });
  return input;
}

void Model::keepState(int row, const float* state) {
  uint16_t* const kept = work_.kv.state(work_.batch.block(row), work_.batch.position(row));
  for (int i = 0; i < parts_.hiddenSize; i++) kept[i] = toBf16(state[i]);
}

}  // namespace chairlift
