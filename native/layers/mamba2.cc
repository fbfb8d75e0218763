// See mamba2.h.

#include "layers/mamba2.h"

#include "layers/registry.h"
#include "model/state-pieces.h"

namespace chairlift {

namespace {

class ScanRun {
 public:
  ScanRun(const Mamba2& space, Workspace& work)
      : space_(space),
        work_(work),
        layout_(space.layout()),
        rows_(work.batch.count()),
        stride_(space.projectedStride()),
        projected_(work.projected.rows(size_t(rows_), stride_)),
        mixedStride_(layout_.channelStride()),
        mixed_(work.inner.rows(size_t(rows_), mixedStride_)),
        outputStride_(paddedLength(space.valueRows())),
        outputs_(work.attended.rows(size_t(rows_), outputStride_)) {}

  void run(const InputRows& input, float* out) {
    work_.multiplier.apply(space_.projection, input, rows_, projected_, stride_);
    convolveRows(space_.convolution, layout_, space_.state, projected_, stride_, mixed_, mixedStride_, work_);
    work_.pool.forEachOne("prepare rows", rows_, [&](int row) {
      float* const steps = projected_ + size_t(row) * stride_ + space_.stepsAt();
      float* const kept = projected_ + size_t(row) * stride_ + space_.keptAt();
      work_.kernels.recurrence.stepsAndDecays(steps, space_.stepBias.data(), space_.rates.data(), steps, kept,
                                              space_.heads);
    });
    forEachStatePiece(work_, layout_, space_.heads,
                       [&](const StateRun& run, int head, int begin, int end) { scan(run, head, begin, end); });
    work_.pool.forEachOne("finish rows", rows_, [&](int row) {
      float* const outputs = outputs_ + size_t(row) * outputStride_;
      const float* const gate = projected_ + size_t(row) * stride_ + space_.gateAt();
      work_.kernels.recurrence.multiplyRow(outputs, gate, true, outputs, space_.valueRows());
      space_.norm.apply(work_.kernels, outputs, space_.valueRows(), work_.normEpsilon);
    });
    work_.multiplier.apply(space_.output, {outputs_, outputStride_, space_.valueRows()}, rows_, out,
                           work_.stream.stride);
  }

 private:
  void scan(const StateRun& run, int head, int begin, int end) {
    const int group = head / (space_.heads / space_.groups);
    const float* const mixed = mixed_ + size_t(run.firstRow) * mixedStride_;
    const float* const projected = projected_ + size_t(run.firstRow) * stride_;
    const float* const from = work_.recurrentStates.at(run.from, space_.state);
    ScanTask task;
    task.rows = run.rows;
    task.values = mixed + head * space_.headSize;
    task.writes = mixed + space_.valueRows() + group * space_.stateSize;
    task.reads = mixed + space_.valueRows() + space_.groupRows() + group * space_.stateSize;
    task.stride = mixedStride_;
    task.kept = projected + space_.keptAt() + head;
    task.steps = projected + space_.stepsAt() + head;
    task.headStride = stride_;
    task.skip = space_.skip[size_t(head)];
    task.outputs = outputs_ + size_t(run.firstRow) * outputStride_ + head * space_.headSize;
    task.outputStride = outputStride_;
    task.from = from ? from + layout_.matrixAt(head) : nullptr;
    task.state = work_.recurrentStates.at(run.to, space_.state) + layout_.matrixAt(head);
    task.stateStride = layout_.columnStride();
    task.stateSize = space_.stateSize;
    task.headSize = space_.headSize;
    task.begin = begin;
    task.end = end;
    work_.kernels.recurrence.scan(task);
  }

  const Mamba2& space_;
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

void Mamba2::run(const InputRows& input, Workspace& work, float* out) const { ScanRun(*this, work).run(input, out); }

std::unique_ptr<Body> readMamba2(const Record& from, Reader& reader) {
  const int hidden = reader.model.hiddenSize;
  auto space = std::make_unique<Mamba2>();
  space->heads = from.integer("heads");
  space->headSize = from.integer("headSize");
  space->stateSize = from.integer("stateSize");
  space->groups = from.integer("groups");
  space->taps = from.object("convolution").integer("length");
  require(space->heads > 0 && space->headSize > 0 && space->stateSize > 0 && space->groups > 0 && space->taps > 0 &&
              space->heads % space->groups == 0,
          "heads that are no multiple of their groups");
  space->state = reader.takeState(from, space->layout());
  const size_t values = size_t(space->valueRows()), shared = size_t(space->groupRows());
  reader.join(space->projection, from.object("value"), 0, space->valueRows(), hidden);
  reader.join(space->projection, from.object("write"), values, space->groupRows(), hidden);
  reader.join(space->projection, from.object("read"), values + shared, space->groupRows(), hidden);
  reader.join(space->projection, from.object("gate"), space->gateAt(), space->valueRows(), hidden);
  reader.join(space->projection, from.object("step"), space->stepsAt(), space->heads, hidden);
  space->output = reader.linear(from.object("output"), hidden, space->valueRows());
  space->convolution = readConvolution(from.object("convolution"), space->layout(), true);
  space->stepBias = from.floats("stepBias", size_t(space->heads));
  space->rates = from.floats("rate", size_t(space->heads));
  space->skip = from.floats("skip", size_t(space->heads));
  space->norm = readNorm(from.object("norm"), space->valueRows());
  return space;
}

}  // namespace chairlift
