// What the bodies of a step share: kernels, threads, the batch, caches and scratch buffers.
#pragma once

#include <vector>

#include "kernels/kernels.h"
#include "model/batch-rows.h"
#include "model/kv-blocks.h"
#include "model/linear.h"
#include "model/recurrent-states.h"
#include "model/row-buffer.h"
#include "system/thread-pool.h"

namespace chairlift {

/** The residual stream and the norm scales of its rows. */
struct Stream {
  float* x = nullptr;
  size_t stride = 0;
  int size = 0;
  // By NormKind; empty where no norm of the kind reads the stream.
  std::vector<RowScale> scales[2];

  float* row(int index) const { return x + size_t(index) * stride; }
  const RowScale* scalesOf(NormKind kind) const { return scales[size_t(kind)].data(); }
  InputRows rows() const { return {x, stride, size}; }
  InputRows normalized(const Norm& norm) const {
    InputRows all = rows();
    all.form = InputForm::Normalized;
    all.norm = &norm;
    all.scales = scalesOf(norm.kind);
    return all;
  }
};

struct Workspace {
  Workspace(const KernelTable& itsKernels, ThreadPool& itsPool, const KvLayout& kvLayout, int blockCount,
            const std::vector<StateLayout>& stateLayouts, int stateSlots, float epsilon)
      : kernels(itsKernels), pool(itsPool), kv(kvLayout, blockCount), recurrentStates(stateLayouts, stateSlots),
        multiplier(itsKernels, itsPool), normEpsilon(epsilon) {}

  /** Computes the norm scales of a row of the residual stream; call it after each change. */
  void measure(int row) {
    for (const NormKind kind : {NormKind::Rms, NormKind::Layer}) {
      std::vector<RowScale>& scales = stream.scales[size_t(kind)];
      if (!scales.empty()) scales[size_t(row)] = kernels.rowScale(kind, stream.row(row), stream.size, normEpsilon);
    }
  }

  const KernelTable& kernels;
  ThreadPool& pool;
  KvBlocks kv;
  RecurrentStates recurrentStates;
  Multiplier multiplier;
  // The model's, or that of a head that drafts.
  float normEpsilon;

  BatchRows batch;
  Stream stream;

  // Scratch of one body; the next overwrites it.
  RowBuffer projected, attended, inner, scores, gathered;
  RowBuffer perLayerInputs;
  size_t perLayerInputStride = 0;
  // By thread.
  std::vector<std::vector<float>> attentionScratch;
  // Of segments whose history threads share.
  std::vector<float> attentionStates;
};

}  // namespace chairlift
