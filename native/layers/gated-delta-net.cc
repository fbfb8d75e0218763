// See gated-delta-net.h.

#include "layers/gated-delta-net.h"

#include <cmath>

#include "layers/registry.h"
#include "model/state-pieces.h"

namespace chairlift {

namespace {

class DeltaRun {
 public:
  DeltaRun(const GatedDeltaNet& net, Workspace& work)
      : net_(net),
        work_(work),
        layout_(net.layout()),
        rows_(work.batch.count()),
        stride_(net.projectedStride()),
        projected_(work.projected.rows(size_t(rows_), stride_)),
        mixedStride_(layout_.channelStride()),
        mixed_(work.inner.rows(size_t(rows_), mixedStride_)),
        outputStride_(paddedLength(net.valueRows())),
        outputs_(work.attended.rows(size_t(rows_), outputStride_)) {}

  void run(const InputRows& input, float* out) {
    work_.multiplier.apply(net_.projection, input, rows_, projected_, stride_);
    convolveRows(net_.convolution, layout_, net_.state, projected_, stride_, mixed_, mixedStride_, work_);
    work_.pool.forEachOne("prepare rows", rows_, [&](int row) { prepareRow(row); });
    forEachStatePiece(work_, layout_, net_.valueHeads,
                       [&](const StateRun& run, int head, int begin, int end) { update(run, head, begin, end); });
    work_.pool.forEachOne("finish rows", rows_, [&](int row) { finishRow(row); });
    InputRows gated{projected_ + net_.gateAt(), stride_, net_.valueRows()};
    gated.form = InputForm::Gated;
    gated.curve.kind = Activation::Silu;
    gated.up = outputs_;
    gated.upStride = outputStride_;
    work_.multiplier.apply(net_.output, gated, rows_, out, work_.stream.stride);
  }

 private:
  void prepareRow(int row) {
    const RecurrenceKernels& kernels = work_.kernels.recurrence;
    float* const mixed = mixed_ + size_t(row) * mixedStride_;
    const float queryLength = 1.0f / std::sqrt(float(net_.keySize));
    for (int head = 0; head < net_.keyHeads; head++) {
      kernels.toLength(mixed + head * net_.keySize, net_.keySize, queryLength);
      kernels.toLength(mixed + net_.keyRows() + head * net_.keySize, net_.keySize, 1.0f);
    }
    float* const projected = projected_ + size_t(row) * stride_;
    float* const shares = projected + net_.sharesAt();
    float* const decays = projected + net_.decaysAt();
    kernels.sigmoids(shares, shares, net_.valueHeads);
    kernels.stepsAndDecays(decays, net_.decayBias.data(), net_.rates.data(), nullptr, decays, net_.valueHeads);
  }

  void update(const StateRun& run, int head, int begin, int end) {
    const int keyHead = net_.keyHeadOf(head);
    const float* const mixed = mixed_ + size_t(run.firstRow) * mixedStride_;
    const float* const projected = projected_ + size_t(run.firstRow) * stride_;
    const float* const from = work_.recurrentStates.at(run.from, net_.state);
    DeltaTask task;
    task.rows = run.rows;
    task.queries = mixed + keyHead * net_.keySize;
    task.keys = mixed + net_.keyRows() + keyHead * net_.keySize;
    task.values = mixed + 2 * net_.keyRows() + head * net_.valueSize;
    task.stride = mixedStride_;
    task.kept = projected + net_.decaysAt() + head;
    task.shares = projected + net_.sharesAt() + head;
    task.headStride = stride_;
    task.outputs = outputs_ + size_t(run.firstRow) * outputStride_ + head * net_.valueSize;
    task.outputStride = outputStride_;
    task.from = from ? from + layout_.matrixAt(head) : nullptr;
    task.state = work_.recurrentStates.at(run.to, net_.state) + layout_.matrixAt(head);
    task.stateStride = layout_.columnStride();
    task.keySize = net_.keySize;
    task.valueSize = net_.valueSize;
    task.begin = begin;
    task.end = end;
    work_.kernels.recurrence.updateDelta(task);
  }

  void finishRow(int row) {
    float* const outputs = outputs_ + size_t(row) * outputStride_;
    for (int head = 0; head < net_.valueHeads; head++) {
      net_.norm.apply(work_.kernels, outputs + head * net_.valueSize, net_.valueSize, work_.normEpsilon);
    }
  }

  const GatedDeltaNet& net_;
  Workspace& work_;
  const StateLayout layout_;
  const int rows_;
  const size_t stride_;
  float* const projected_;
  const size_t mixedStride_;
  float* const mixed_;
  const size_t outputStride_;
  float* const outputs_;
};

}  // namespace

void GatedDeltaNet::run(const InputRows& input, Workspace& work, float* out) const { DeltaRun(*this, work).run(input, out); }

std::unique_ptr<Body> readGatedDeltaNet(const Record& from, Reader& reader) {
  const int hidden = reader.model.hiddenSize;
  auto net = std::make_unique<GatedDeltaNet>();
  net->keyHeads = from.integer("keyHeads");
  net->keySize = from.integer("keySize");
  net->valueHeads = from.integer("valueHeads");
  net->valueSize = from.integer("valueSize");
  net->strided = from.text("sharing") == "strided";
  net->taps = from.object("convolution").integer("length");
  require(net->keyHeads > 0 && net->keySize > 0 && net->valueSize > 0 && net->valueHeads > 0 &&
              net->valueHeads % net->keyHeads == 0,
          "value heads that are no multiple of key heads");
  require(net->taps > 0, "a convolution without taps");
  net->state = reader.takeState(from, net->layout());
  const size_t keyRows = size_t(net->keyRows());
  reader.join(net->projection, from.object("query"), 0, net->keyRows(), hidden);
  reader.join(net->projection, from.object("key"), keyRows, net->keyRows(), hidden);
  reader.join(net->projection, from.object("value"), 2 * keyRows, net->valueRows(), hidden);
  reader.join(net->projection, from.object("gate"), net->gateAt(), net->valueRows(), hidden);
  reader.join(net->projection, from.object("share"), net->sharesAt(), net->valueHeads, hidden);
  reader.join(net->projection, from.object("decay"), net->decaysAt(), net->valueHeads, hidden);
  net->output = reader.linear(from.object("output"), hidden, net->valueRows());
  net->convolution = readConvolution(from.object("convolution"), net->layout(), true);
  net->decayBias = from.floats("decayBias", size_t(net->valueHeads));
  net->rates = from.floats("decayRate", size_t(net->valueHeads));
  net->norm = readNorm(from.object("norm"), net->valueSize);
  return net;
}

}  // namespace chairlift
