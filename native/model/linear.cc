// See linear.h.

#include "model/linear.h"

#include <algorithm>

namespace chairlift {

namespace {

constexpr int panelsOfGroup = groupInputs / panelColumns;

void reserve(PageBuffer& buffer, size_t bytes) {
  if (buffer.bytes() < bytes) buffer = PageBuffer(bytes);
}

}  // namespace

int Linear::panels() const {
  int total = 0;
  for (const Part& part : parts) total += part.matrix->panels();
  return total;
}

size_t Linear::weightBytes() const {
  size_t total = 0;
  for (const Part& part : parts) total += part.matrix->member().panelBytes * size_t(part.matrix->panels());
  return total;
}

bool Linear::readsCodes() const {
  return std::any_of(parts.begin(), parts.end(), [](const Part& part) { return part.matrix->readsCodes(); });
}

bool Linear::readsValues() const {
  return std::any_of(parts.begin(), parts.end(), [](const Part& part) { return !part.matrix->readsCodes(); });
}

void Multiplier::apply(const Linear& linear, const InputRows& input, const std::vector<RowRun>& runs, float* out,
                       size_t outStride) {
  const bool adds = !rowAdapters_.empty() && !linear.additions.empty();
  cutTiles(runs);
  makeInput(linear, input, adds);
  multiply(linear, runs, out, outStride);
  if (!adds) return;
  for (const Addition& addition : linear.additions) add(addition, input, runs, out, outStride);
}

void Multiplier::add(const Addition& addition, const InputRows& input, const std::vector<RowRun>& runs, float* out,
                     size_t outStride) {
  std::vector<int32_t>& rows = addedRows_;
  rows.clear();
  addedMembers_.clear();
  addedRuns_.clear();
  for (const RowRun& run : runs) {
    const int member = run.member - addition.firstMember, first = int(rows.size());
    if (member < 0 || member >= addition.members) continue;
    for (int row = run.firstRow; row < run.firstRow + run.rows; row++) {
      if (rowAdapters_[size_t(input.stepRow(row))] == addition.adapter) rows.push_back(row);
    }
    addedMembers_.resize(rows.size(), member);
    if (int(rows.size()) > first) addedRuns_.push_back({member, first, int(rows.size()) - first});
  }
  if (rows.empty()) return;
  if (!inner_) inner_ = std::make_unique<Multiplier>(kernels_, pool_);
  const size_t reducedStride = paddedLength(addition.rank), addedStride = paddedLength(addition.outputs);
  float* const reduced = reduced_.rows(rows.size(), reducedStride);
  float* const added = added_.rows(rows.size(), addedStride);
  // Rows with `places` are copied, never written.
  InputRows seen{const_cast<float*>(values_), valueStride_, input.count};
  seen.places = rows.data();
  inner_->apply(addition.down, seen, addedRuns_, reduced, reducedStride);
  inner_->apply(addition.up, {reduced, reducedStride, addition.rank}, addedRuns_, added, addedStride);
  pool_.forEachOne("add adapters", int(rows.size()), [&](int i) {
    float* const sums = out + size_t(rows[size_t(i)]) * outStride + addition.offset;
    kernels_.addScaled(sums, added + size_t(i) * addedStride, addition.scale, addition.outputs);
    if (addition.factors.empty()) return;
    const size_t outputs = size_t(addition.outputs), first = size_t(addedMembers_[size_t(i)]) * outputs;
    for (size_t k = 0; k < outputs; k++) {
      sums[k] = sums[k] * addition.factors[first + k] + addition.shifts[first + k];
    }
  });
}

void Multiplier::cutTiles(const std::vector<RowRun>& runs) {
  tiles_.clear();
  for (const RowRun& run : runs) {
    for (int row = 0; row < run.rows; row += tileRows) {
      tiles_.push_back({run.firstRow + row, std::min(tileRows, run.rows - row)});
    }
  }
}

void Multiplier::makeInput(const Linear& reader, const InputRows& source, bool wantsValues) {
  const bool copied = source.isCopied();
  // For adapters plain rows need no copy, and activated ones are written in place.
  const bool isPlain = !copied && source.form == InputForm::Plain;
  const bool values = wantsValues && !isPlain;
  int rows = 0, tallest = 0;
  for (const Tile& tile : tiles_) {
    rows = std::max(rows, tile.firstRow + tile.rows);
    tallest = std::max(tallest, tile.rows);
  }
  valueStride_ = copied ? paddedLength(source.count) : source.stride;
  float* const to = copied && values ? copies_.rows(size_t(rows), valueStride_) : source.x;
  values_ = to;
  // A tile of one row is that row.
  reserveInput(input_, reader, source, isPlain && rows == 1);
  if (!input_.hasCodes && !values && !input_.hasFloats) return;
  // A task is some groups of all rows of a tile, so that no two threads write one cache line.
  const int groups = int(input_.groups), groupsPerPiece = std::max(4, 128 / tallest);
  const int pieces = (groups + groupsPerPiece - 1) / groupsPerPiece;
  pool_.forEach({"make input", reader.name.c_str()}, int(tiles_.size()) * pieces, 1, [&](int begin, int end, int) {
    for (int piece = begin; piece < end; piece++) {
      const size_t tile = size_t(piece / pieces);
      const int first = piece % pieces * groupsPerPiece;
      makeGroups(input_, source, tile, first, std::min(groups, first + groupsPerPiece),
                 values ? to + size_t(tiles_[tile].firstRow) * valueStride_ : nullptr);
    }
  });
}

void Multiplier::reserveInput(TiledInput& to, const Linear& reader, const InputRows& source, bool isPlain) const {
  to.groups = size_t(source.count + groupInputs - 1) / groupInputs;
  to.hasCodes = reader.readsCodes();
  to.hasFloats = reader.readsValues() && !isPlain;
  to.floats = to.hasFloats ? to.floatTiles.rows(tiles_.size(), to.groups * groupCodes) : source.x;
  if (!to.hasCodes) return;
  reserve(to.codes, tiles_.size() * to.groups * groupCodes);
  reserve(to.sides, tiles_.size() * to.groups * sizeof(GroupSide));
}

void Multiplier::makeGroups(const TiledInput& to, const InputRows& source, size_t tile, int firstGroup, int endGroup,
                            float* values) const {
  InputTask task = taskOf(source, tiles_[tile]);
  const size_t group = tile * to.groups;
  task.firstGroup = firstGroup;
  task.endGroup = endGroup;
  task.values = values;
  task.valueStride = valueStride_;
  task.tile = to.hasFloats ? to.floatTiles.data() + group * groupCodes : nullptr;
  task.codes = to.hasCodes ? to.codes.as<int8_t>() + group * groupCodes : nullptr;
  task.sides = to.sides.as<GroupSide>() + group;
  task.paired = kernels_.pairs(task.rows, int(to.groups));
  kernels_.makeInput(task);
}

InputTask Multiplier::taskOf(const InputRows& source, const Tile& tile) const {
  InputTask task;
  task.form = source.form;
  task.activation = source.curve.kind;
  task.limit = source.curve.limit;
  task.slope = source.curve.slope;
  task.rows = tile.rows;
  task.weight = source.norm ? source.norm->weight.data() : nullptr;
  task.bias = source.norm ? source.norm->biasOrNull() : nullptr;
  task.factors = source.factors ? source.factors + tile.firstRow : nullptr;
  for (int i = 0; i < tile.rows; i++) {
    const size_t row = size_t(source.places ? source.places[tile.firstRow + i] : tile.firstRow + i);
    task.x[i] = source.x + row * source.stride;
    task.up[i] = source.up ? source.up + row * source.upStride : nullptr;
    if (source.scales) task.scales[i] = source.scales[row];
  }
  return task;
}

void Multiplier::viewInput(const std::vector<RowRun>& runs) {
  inputs_.clear();
  size_t tile = 0;
  for (const RowRun& run : runs) {
    const size_t group = tile * input_.groups;
    inputs_.push_back({run.rows, input_.floats + group * groupCodes, input_.codes.as<int8_t>() + group * groupCodes,
                       input_.sides.as<GroupSide>() + group, input_.groups});
    tile += size_t(run.rows + tileRows - 1) / tileRows;
  }
}

void Multiplier::multiply(const Linear& linear, const std::vector<RowRun>& runs, float* out, size_t outStride) {
  viewInput(runs);
  const int panels = linear.panels();
  const LoopName name("product", linear.name.c_str(), linear.weightBytes() * runs.size());
  // In long pieces, because prefetching goes past a piece's end.
  pool_.forEachInRuns(name, int(runs.size()) * panels, 2, [&](int begin, int end, int) {
    while (begin < end) {
      const size_t index = size_t(begin / panels);
      const int first = begin % panels, last = std::min(panels, first + end - begin);
      multiplyPanels(linear, runs[index], inputs_[index], first, last, out, outStride);
      begin += last - first;
    }
  });
}

void Multiplier::multiplyPart(const Linear::Part& part, const RowRun& run, const Activations& input, int begin, int end,
                              float* out, size_t outStride) const {
  const size_t columns = size_t(part.matrix->panels()) * panelColumns;
  const float* const bias = part.bias.empty() ? nullptr : &part.bias[size_t(run.member) * columns];
  kernels_.multiply(part.matrix->member(run.member), input, begin, end, bias,
                    out + size_t(run.firstRow) * outStride + part.offset, outStride);
}

void Multiplier::multiplyPanels(const Linear& linear, const RowRun& run, const Activations& input, int begin, int end,
                                float* out, size_t outStride) const {
  for (const Linear::Part& part : linear.parts) {
    const int count = part.matrix->panels();
    const int first = std::max(begin, 0), last = std::min(end, count);
    if (first < last) multiplyPart(part, run, input, first, last, out, outStride);
    begin -= count;
    end -= count;
  }
}

bool Multiplier::canGate(const Linear& projection, const Linear& down) const {
  const bool adds = !rowAdapters_.empty() && !(projection.additions.empty() && down.additions.empty());
  return !adds && projection.parts.size() == 2;
}

void Multiplier::applyGated(const Linear& projection, const InputRows& input, const Linear& down, const InputRows& gated,
                            const std::vector<RowRun>& runs, float* out, size_t outStride) {
  cutTiles(runs);
  makeInput(projection, input, /*wantsValues=*/false);
  viewInput(runs);
  reserveInput(nextInput_, down, gated, /*isPlain=*/false);
  firstTiles_.clear();
  size_t tile = 0;
  for (const RowRun& run : runs) {
    firstTiles_.push_back(tile);
    tile += size_t(run.rows + tileRows - 1) / tileRows;
  }
  firstTiles_.push_back(tile);
  // A group of the gated rows is made of two panels of each part.
  const Linear::Part &gate = projection.parts[0], &up = projection.parts[1];
  const int groups = int(nextInput_.groups), panels = gate.matrix->panels();
  float* const made = gated.x;
  const LoopName name("product", projection.name.c_str(), projection.weightBytes() * runs.size());
  pool_.forEachInRuns(name, int(runs.size()) * groups, 1, [&](int begin, int end, int) {
    while (begin < end) {
      const size_t index = size_t(begin / groups);
      const int first = begin % groups, last = std::min(groups, first + end - begin);
      const int firstPanel = first * panelsOfGroup, endPanel = std::min(panels, last * panelsOfGroup);
      multiplyPart(gate, runs[index], inputs_[index], firstPanel, endPanel, made, gated.stride);
      multiplyPart(up, runs[index], inputs_[index], firstPanel, endPanel, made, gated.stride);
      for (size_t own = firstTiles_[index]; own < firstTiles_[index + 1]; own++) {
        makeGroups(nextInput_, gated, own, first, last, nullptr);
      }
      begin += last - first;
    }
  });
  std::swap(input_, nextInput_);
  multiply(down, runs, out, outStride);
}

}  // namespace chairlift
