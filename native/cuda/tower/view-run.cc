// See view-run.h.

#include "cuda/tower/view-run.h"

#include <algorithm>
#include <stdexcept>

namespace chairlift {
namespace cuda {

namespace {

constexpr int rowThreads = 256, tapThreads = 128;

}  // namespace

ViewRun::ViewRun(std::shared_ptr<CudaTower> tower, TowerProgram program, std::vector<uint8_t> rgb)
    : tower_(std::move(tower)), program_(std::move(program)), rgb_(std::move(rgb)) {
  require(rgb_.size() == 3 * size_t(program_.width) * size_t(program_.height), "a view of another size");
}

ViewRun::~ViewRun() {
  if (!opened_) return;
  try {
    wait();
  } catch (const DeviceError&) {
    // A lost device has nothing under way.
  }
}

ViewRun::Opened::Opened(CudaTower& tower, const TowerProgram& program, const std::vector<uint8_t>& pixels)
    : maps(tower), lists(tower.device(), program), attention(tower, maps, lists, program), rgb(tower.device(), pixels.size()) {
  Device& device = tower.device();
  device.upload(rgb.as<uint8_t>(), pixels.data(), pixels.size());
  // Each has room for the largest rows that it ever holds.
  std::vector<size_t> floats;
  const auto reserve = [&](const BufferRows& rows) {
    floats.resize(std::max(floats.size(), size_t(rows.buffer) + 1));
    floats[size_t(rows.buffer)] = std::max(floats[size_t(rows.buffer)], size_t(rows.rows) * paddedLength(rows.size));
  };
  for (const TowerOperation& operation : program.operations) {
    reserve(operation.to);
    if (operation.kind != TowerOperation::Kind::Patches) reserve(operation.from);
  }
  for (const BufferRows& output : program.outputs) reserve(output);
  for (const size_t count : floats) {
    buffers.emplace_back(device, count * sizeof(float));
    // What pads rows is multiplied by zeros, too.
    device.clear(buffers.back().as<uint8_t>(), count * sizeof(float));
  }
}

ViewRun::Opened& ViewRun::opened() {
  if (!opened_) opened_ = std::make_unique<Opened>(*tower_, program_, rgb_);
  return *opened_;
}

DeviceRows ViewRun::view(const BufferRows& rows) {
  return {opened().buffers[size_t(rows.buffer)].as<float>(), paddedLength(rows.size), rows.size};
}

void ViewRun::run(int operation, int first, int count) {
  const TowerOperation& own = program_.operations.at(size_t(operation));
  if (first < 0 || count <= 0 || count > own.rows() - first) throw std::out_of_range("no such rows of a view");
  switch (own.kind) {
    case TowerOperation::Kind::Patches: return runPatches(own, first, count);
    case TowerOperation::Kind::Rows: return runRows(own, first, count);
    case TowerOperation::Kind::Table: return addTable(operation, own, first, count);
    case TowerOperation::Kind::Gather: return gather(operation, own, first, count);
    default: return runBranch(own, first, count);
  }
}

void ViewRun::read(int output, float* to) {
  const BufferRows& rows = program_.outputs.at(size_t(output));
  const DeviceRows from = view(rows);
  std::vector<float> padded(size_t(rows.rows) * from.stride);
  tower_->device().download(padded.data(), from.x, padded.size() * sizeof(float));
  wait();
  for (int row = 0; row < rows.rows; row++) {
    std::copy_n(&padded[size_t(row) * from.stride], rows.size, to + size_t(row) * size_t(rows.size));
  }
}

void ViewRun::runPatches(const TowerOperation& operation, int first, int count) {
  const PatchMaps& patches = tower_->tower().steps[size_t(operation.step)].patches;
  ViewMaps& maps = opened().maps;
  const DeviceRows read = maps.room("patches", count, patches.values()), to = view(operation.to).from(first);
  ReadPatchesArgs args{};
  args.rgb = opened().rgb.as<uint8_t>();
  args.values = opened().lists.values();
  args.width = program_.width;
  args.size = patches.size;
  args.frames = patches.frames;
  args.columns = operation.columns;
  args.firstRow = first;
  args.channelsFirst = patches.channelsFirst;
  args.to = read.x;
  args.stride = int64_t(read.stride);
  maps.work->device.launch("read_patches", {count, 1, rowThreads, 0}, args);
  const Input input{read.x, read.stride, read.size};
  maps.apply(patches.linears[0], input, count, to);
  for (size_t map = 1; map < patches.linears.size(); map++) {
    const DeviceRows added = maps.room("added", count, to.size);
    maps.apply(patches.linears[map], input, count, added);
    add(added, count, to, nullptr, nullptr, 0);
  }
}

void ViewRun::runRows(const TowerOperation& operation, int first, int count) {
  using Kind = TowerStep::Kind;
  const TowerStep& step = tower_->tower().steps[size_t(operation.step)];
  ViewMaps& maps = opened().maps;
  const DeviceRows from = view(operation.from).from(first), to = view(operation.to).from(first);
  const Input input{from.x, from.stride, from.size};
  if (step.kind == Kind::Linear) return maps.apply(step.linear, input, count, to);
  if (step.kind == Kind::FeedForward) return maps.apply(*step.mlp, input, count, to);
  if (step.kind == Kind::Norm) return maps.write(maps.inputOf(from, count, step.norm, step.epsilon), count, to);
  if (step.kind == Kind::Activation) {
    const Input activated = maps.activated(from, nullptr, step.curve, count);
    // Others are in place already.
    if (activated.form != InputForm::Plain) maps.write(activated, count, to);
    return;
  }
  ChangeRowsArgs args{};
  args.kind = step.kind == Kind::Affine ? changeAffine : changeStandardize;
  args.first = step.factor;
  args.second = step.shift;
  args.shifts = maps.vector(step.shifts);
  args.scales = maps.vector(step.scales);
  maps.change(args, to, count);
}

void ViewRun::addTable(int index, const TowerOperation& operation, int first, int count) {
  ViewMaps& maps = opened().maps;
  const DeviceRows to = view(operation.to).from(first);
  const ViewLists::TapLists taps = opened().lists.taps(index);
  AddTapsArgs args{};
  args.table = maps.work->weights.matrix(*tower_->tower().steps[size_t(operation.step)].tables[size_t(operation.table)]);
  args.starts = taps.starts;
  args.rows = taps.rows;
  args.weights = taps.weights;
  args.firstRow = first;
  args.size = to.size;
  args.x = to.x;
  args.stride = int64_t(to.stride);
  maps.work->device.launch("add_taps", {count, (to.size + tapThreads - 1) / tapThreads, tapThreads, 0}, args);
}

void ViewRun::gather(int index, const TowerOperation& operation, int first, int count) {
  using By = TowerOperation::Gathering;
  ViewMaps& maps = opened().maps;
  const DeviceRows from = view(operation.from), to = view(operation.to).from(first);
  GatherCellsArgs args{};
  args.from = from.x;
  args.fromStride = int64_t(from.stride);
  args.sources = opened().lists.sources(index) + size_t(first) * size_t(operation.members);
  args.token = maps.vector(tower_->tower().steps[size_t(operation.step)].token);
  args.by = operation.by == By::Mean ? gatherMean : operation.by == By::Channels ? gatherChannels : gatherCells;
  args.members = operation.members;
  args.size = from.size;
  args.to = to.x;
  args.toStride = int64_t(to.stride);
  maps.work->device.launch("gather_cells", {count, 1, rowThreads, 0}, args);
}

void ViewRun::runBranch(const TowerOperation& operation, int first, int count) {
  const TowerStep& step = tower_->tower().steps[size_t(operation.step)];
  const TowerBranch& branch = step.branches[size_t(operation.branch)];
  ViewMaps& maps = opened().maps;
  ViewAttention& attending = opened().attention;
  const DeviceRows stream = view(operation.to), own = stream.from(first);
  if (operation.kind == TowerOperation::Kind::Project) {
    const Input input = maps.inputOf(own, count, branch.input, step.epsilon);
    return attending.project(std::get<GridAttention>(branch.body), operation, step.epsilon, input, first, count);
  }
  const DeviceRows added = maps.room("added", count, stream.size);
  if (operation.kind == TowerOperation::Kind::Mlp) {
    maps.apply(std::get<TowerMlp>(branch.body), maps.inputOf(own, count, branch.input, step.epsilon), count, added);
    return add(added, count, own, nullptr, &branch, step.epsilon);
  }
  attending.attend(std::get<GridAttention>(branch.body), operation, first, count, added);
  add(added, count, stream, opened().lists.groups(operation.groups).order + first, &branch, step.epsilon);
}

void ViewRun::add(const DeviceRows& added, int count, const DeviceRows& stream, const int32_t* order, const TowerBranch* branch,
                  float epsilon) {
  ViewMaps& maps = opened().maps;
  AddBranchArgs args{};
  args.added = added.x;
  args.addedStride = int64_t(added.stride);
  if (branch) {
    args.norm = maps.norm(branch->output, epsilon);
    args.scales = maps.vector(branch->scales);
  }
  args.stream = stream.x;
  args.stride = int64_t(stream.stride);
  args.order = order;
  args.size = stream.size;
  const size_t shared = args.norm.weight ? (size_t(stream.size) + 64) * sizeof(float) : 0;
  maps.work->device.launch("add_branch", {count, 1, rowThreads, shared}, args);
}

}  // namespace cuda
}  // namespace chairlift
