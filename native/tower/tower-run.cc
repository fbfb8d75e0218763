// See tower-run.h.

#include "tower/tower-run.h"

#include <algorithm>
#include <stdexcept>

namespace chairlift {

namespace {

/** Pieces of rows that are shared among threads. */
constexpr int piece = 16;

}  // namespace

TowerRun::TowerRun(std::shared_ptr<const Tower> tower, TowerProgram program, std::vector<uint8_t> rgb,
                   const KernelTable& kernels, std::shared_ptr<ThreadPool> pool)
    : tower_(std::move(tower)),
      program_(std::move(program)),
      rgb_(std::move(rgb)),
      pool_(std::move(pool)),
      maps_(kernels, *pool_),
      attention_(maps_) {
  require(rgb_.size() == 3 * size_t(program_.width) * size_t(program_.height), "a view of another size");
  // Each has room for the largest rows that it ever holds: pieces must not move it.
  std::vector<size_t> floats;
  const auto reserve = [&](const BufferRows& rows) {
    floats.resize(std::max(floats.size(), size_t(rows.buffer) + 1));
    floats[size_t(rows.buffer)] = std::max(floats[size_t(rows.buffer)], size_t(rows.rows) * paddedLength(rows.size));
  };
  for (const TowerOperation& operation : program_.operations) {
    reserve(operation.to);
    if (operation.kind != TowerOperation::Kind::Patches) reserve(operation.from);
  }
  for (const BufferRows& output : program_.outputs) reserve(output);
  buffers_.resize(floats.size());
  for (size_t i = 0; i < floats.size(); i++) buffers_[i].rows(1, floats[i]);
}

RowView TowerRun::view(const BufferRows& rows) const {
  return {buffers_[size_t(rows.buffer)].data(), paddedLength(rows.size), rows.size};
}

void TowerRun::read(int output, float* to) const {
  const BufferRows& rows = program_.outputs.at(size_t(output));
  const RowView from = view(rows);
  for (int row = 0; row < rows.rows; row++) std::copy_n(from.row(row), rows.size, to + size_t(row) * size_t(rows.size));
}

void TowerRun::run(int operation, int first, int count) {
  const TowerOperation& own = program_.operations.at(size_t(operation));
  if (first < 0 || count <= 0 || count > own.rows() - first) throw std::out_of_range("no such rows of a view");
  switch (own.kind) {
    case TowerOperation::Kind::Patches: return runPatches(own, first, count);
    case TowerOperation::Kind::Rows: return runRows(own, first, count);
    case TowerOperation::Kind::Table: return addTable(own, first, count);
    case TowerOperation::Kind::Gather: return gather(own, first, count);
    default: return runBranch(own, first, count);
  }
}

void TowerRun::runPatches(const TowerOperation& operation, int first, int count) {
  const PatchMaps& patches = tower_->steps[size_t(operation.step)].patches;
  const RowView read = roomFor(patches_, count, patches.values()), to = view(operation.to).from(first);
  pool_->forEach("read patches", count, piece, [&](int begin, int end, int) {
    for (int i = begin; i < end; i++) {
      readPatch(patches, (first + i) / operation.columns, (first + i) % operation.columns, read.row(i));
    }
  });
  const InputRows input{read.x, read.stride, read.size};
  maps_.apply(patches.linears[0], input, count, to);
  for (size_t map = 1; map < patches.linears.size(); map++) {
    const RowView added = roomFor(added_, count, to.size);
    maps_.apply(patches.linears[map], input, count, added);
    pool_->forEachOne("add patches", count, [&](int i) { maps_.kernels.addScaled(to.row(i), added.row(i), 1.0f, to.size); });
  }
}

void TowerRun::readPatch(const PatchMaps& patches, int row, int column, float* to) const {
  const int size = patches.size, area = size * size, frames = patches.frames;
  // From one channel, frame and pixel to the next.
  const int byChannel = patches.channelsFirst ? frames * area : 1;
  const int byFrame = patches.channelsFirst ? area : 3 * area, byPixel = patches.channelsFirst ? 1 : 3;
  for (int pixel = 0; pixel < area; pixel++) {
    const size_t y = size_t(row * size + pixel / size), x = size_t(column * size + pixel % size);
    const uint8_t* const colours = &rgb_[3 * (y * size_t(program_.width) + x)];
    for (int channel = 0; channel < 3; channel++) {
      const float value = program_.values[size_t(channel) * 256 + colours[channel]];
      for (int frame = 0; frame < frames; frame++) to[channel * byChannel + frame * byFrame + pixel * byPixel] = value;
    }
  }
}

void TowerRun::runRows(const TowerOperation& operation, int first, int count) {
  using Kind = TowerStep::Kind;
  const TowerStep& step = tower_->steps[size_t(operation.step)];
  const RowView from = view(operation.from).from(first), to = view(operation.to).from(first);
  InputRows input{from.x, from.stride, from.size};
  if (step.kind == Kind::Linear) return maps_.apply(step.linear, input, count, to);
  if (step.kind == Kind::FeedForward) return maps_.apply(*step.mlp, input, count, to);
  if (step.kind == Kind::Norm) return maps_.write(maps_.inputOf(from, count, step.norm, step.epsilon), count, to);
  if (step.kind == Kind::Activation) {
    input.form = InputForm::Activated;
    input.curve = step.curve;
    return maps_.write(input, count, to);
  }
  const bool isAffine = step.kind == Kind::Affine;
  pool_->forEach("normalize", count, piece, [&](int begin, int end, int) {
    for (int row = begin; row < end; row++) {
      float* const x = to.row(row);
      for (int i = 0; i < to.size; i++) {
        x[i] = isAffine ? x[i] * step.factor + step.shift : (x[i] - step.shifts[size_t(i)]) * step.scales[size_t(i)];
      }
    }
  });
}

void TowerRun::addTable(const TowerOperation& operation, int first, int count) {
  const Matrix& table = *tower_->steps[size_t(operation.step)].tables[size_t(operation.table)];
  const RowView to = view(operation.to);
  const Taps& taps = operation.taps;
  pool_->forEach("interpolate positions", count, piece, [&](int begin, int end, int) {
    std::vector<float> sum(paddedLength(to.size)), own(paddedLength(to.size));
    for (int row = first + begin; row < first + end; row++) {
      std::fill(sum.begin(), sum.end(), 0.0f);
      for (int tap = taps.starts[size_t(row)]; tap < taps.starts[size_t(row) + 1]; tap++) {
        table.unpackRow(taps.rows[size_t(tap)], own.data());
        maps_.kernels.addScaled(sum.data(), own.data(), taps.weights[size_t(tap)], to.size);
      }
      maps_.kernels.addScaled(to.row(row), sum.data(), 1.0f, to.size);
    }
  });
}

void TowerRun::gather(const TowerOperation& operation, int first, int count) {
  using By = TowerOperation::Gathering;
  const RowView from = view(operation.from), to = view(operation.to);
  const float* const token = tower_->steps[size_t(operation.step)].token.data();
  const int members = operation.members, size = from.size;
  pool_->forEach("merge rows", count, piece, [&](int begin, int end, int) {
    for (int row = first + begin; row < first + end; row++) {
      float* const own = to.row(row);
      if (operation.by == By::Mean) std::fill_n(own, size, 0.0f);
      for (int member = 0; member < members; member++) {
        const int source = operation.sources[size_t(row) * size_t(members) + size_t(member)];
        const float* const values = source < 0 ? token : from.row(source);
        if (operation.by == By::Cells) std::copy_n(values, size, own + member * size);
        else if (operation.by == By::Channels) for (int i = 0; i < size; i++) own[i * members + member] = values[i];
        else for (int i = 0; i < size; i++) own[i] += values[i];
      }
      if (operation.by == By::Mean) for (int i = 0; i < size; i++) own[i] /= float(members);
    }
  });
}

void TowerRun::runBranch(const TowerOperation& operation, int first, int count) {
  const TowerStep& step = tower_->steps[size_t(operation.step)];
  const TowerBranch& branch = step.branches[size_t(operation.branch)];
  const RowView stream = view(operation.to), own = stream.from(first);
  const RowView added = roomFor(added_, count, stream.size);
  if (operation.kind == TowerOperation::Kind::Mlp) {
    maps_.apply(std::get<TowerMlp>(branch.body), maps_.inputOf(own, count, branch.input, step.epsilon), count, added);
    return addBranch(branch, step.epsilon, added, count, own, nullptr);
  }
  const GridAttention& attention = std::get<GridAttention>(branch.body);
  const TokenGroups& groups = program_.groups[size_t(operation.groups)];
  if (operation.kind == TowerOperation::Kind::Project) {
    const float* const rotations =
        operation.rotation < 0 ? nullptr : program_.rotations[size_t(operation.rotation)].data();
    const InputRows input = maps_.inputOf(own, count, branch.input, step.epsilon);
    return attention_.project(attention, groups, rotations, step.epsilon, input, first, count);
  }
  attention_.attend(attention, groups, first, count, added);
  addBranch(branch, step.epsilon, added, count, stream, &groups.order[size_t(first)]);
}

void TowerRun::addBranch(const TowerBranch& branch, float epsilon, const RowView& added, int count, const RowView& stream,
                         const int32_t* order) {
  pool_->forEach("add to the stream", count, piece, [&](int begin, int end, int) {
    for (int i = begin; i < end; i++) {
      float* const own = added.row(i);
      if (branch.output) branch.output->norm.apply(maps_.kernels, own, added.size, epsilon);
      for (size_t channel = 0; channel < branch.scales.size(); channel++) own[channel] *= branch.scales[channel];
      maps_.kernels.addScaled(stream.row(order ? order[i] : i), own, 1.0f, added.size);
    }
  });
}

}  // namespace chairlift
