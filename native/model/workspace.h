// What the bodies of a step work with: kernels, threads, the rows at hand, and room for what is made of them.
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

/** The residual stream, and how each of its rows is normalized. */
struct Stream {
  float* x = nullptr;
  size_t stride = 0;
  int size = 0;
  // By NormKind; empty where no norm of the kind reads the stream.
  std::vector<RowScale> scales[2];

  float* row(int index) const { return x + size_t(index) * stride; }
  const RowScale* scalesOf(NormKind kind) const { return scales[size_t(kind)].data(); }
  /** All rows as they are. */
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

  /** Works out how a row of the residual stream is normalized, now that it is complete. */
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
  const float normEpsilon;

  // Of the step at hand.
  BatchRows batch;
  Stream stream;

  // Whatever a body makes on its way; each overwrites what the last one left.
  RowBuffer projected, attended, inner, scores, gathered;
  // Inputs of single layers, for all of the step.
  RowBuffer perLayerInputs;
  size_t perLayerInputStride = 0;
  // A worker's own.
  std::vector<std::vector<float>> attentionScratch;
};

}  // namespace chairlift
