// See program.h.

#include "tower/program.h"

#include <algorithm>

namespace chairlift {

namespace {

using Kind = TowerOperation::Kind;

constexpr int mostBuffers = 64;

BufferRows readRows(const Record& from) {
  const BufferRows read{from.integer("buffer"), from.integer("rows"), from.integer("size")};
  require(read.buffer >= 0 && read.buffer < mostBuffers && read.rows > 0 && read.size > 0, "rows of no buffer");
  return read;
}

void requireWithin(const std::vector<int32_t>& all, int least, int end, const char* what) {
  for (const int32_t one : all) require(one >= least && one < end, what);
}

TokenGroups readGroups(const Record& from) {
  TokenGroups read;
  read.order = from.integers("order");
  read.starts = from.integers("starts");
  const int rows = int(read.order.size());
  requireWithin(read.order, 0, rows, "a row of no group");
  require(read.starts.size() >= 2 && read.starts.front() == 0 && read.starts.back() == rows, "groups of other rows");
  read.groups.resize(size_t(rows));
  read.places.resize(size_t(rows), -1);
  for (size_t group = 0; group + 1 < read.starts.size(); group++) {
    const int first = read.starts[group], end = read.starts[group + 1];
    require(first < end && end <= rows, "a group of no rows");
    read.firstBlocks.push_back(read.blockCount);
    read.blockCount += (end - first + blockTokens - 1) / blockTokens;
    for (int place = first; place < end; place++) {
      const size_t row = size_t(read.order[size_t(place)]);
      require(read.places[row] < 0, "a row of two groups");
      read.groups[row] = int(group);
      read.places[row] = place;
    }
  }
  return read;
}

class OperationReader {
 public:
  OperationReader(const TowerProgram& program, const Tower& tower) : program_(program), tower_(tower) {}

  TowerOperation read(const Record& from) const {
    TowerOperation read{};
    read.step = from.integer("step");
    require(read.step >= 0 && size_t(read.step) < tower_.steps.size(), "an operation of no step");
    read.to = readRows(from.object("to"));
    const std::string& kind = from.text("kind");
    if (kind == "patches") return readPatches(from, std::move(read));
    read.from = readRows(from.object("from"));
    if (kind == "rows") return readPlain(std::move(read));
    if (kind == "table") return readTable(from, std::move(read));
    if (kind == "gather") return readGather(from, std::move(read));
    return readBranch(from, kind, std::move(read));
  }

 private:
  const TowerStep& stepOf(const TowerOperation& operation) const { return tower_.steps[size_t(operation.step)]; }

  static void requireInPlace(const TowerOperation& read) {
    require(read.from.buffer == read.to.buffer && read.from.rows == read.to.rows && read.from.size == read.to.size,
            "an operation that is not in place");
  }

  TowerOperation readPatches(const Record& from, TowerOperation read) const {
    read.kind = Kind::Patches;
    read.columns = from.integer("columns");
    require(stepOf(read).kind == TowerStep::Kind::Patches, "patches of another step");
    const PatchMaps& patches = stepOf(read).patches;
    require(read.columns > 0 && read.columns * patches.size <= program_.width &&
                (read.to.rows + read.columns - 1) / read.columns * patches.size <= program_.height,
            "patches beyond the view");
    require(patches.linears[0].outputs == read.to.size, "patches of another size");
    return read;
  }

  TowerOperation readPlain(TowerOperation read) const {
    using Step = TowerStep::Kind;
    const TowerStep& step = stepOf(read);
    read.kind = Kind::Rows;
    require(read.from.rows == read.to.rows, "rows that do not fit");
    const int size = read.from.size;
    if (step.kind == Step::Linear) {
      require(step.linear.inputs == size && step.linear.outputs == read.to.size && read.from.buffer != read.to.buffer,
              "rows that do not fit their map");
      return read;
    }
    if (step.kind == Step::FeedForward) {
      require(step.mlp->up.inputs == size && step.mlp->down.outputs == read.to.size && read.from.buffer != read.to.buffer,
              "rows that do not fit their feed-forward");
      return read;
    }
    requireInPlace(read);
    require(step.kind == Step::Norm || step.kind == Step::Activation || step.kind == Step::Affine ||
                step.kind == Step::Standardize,
            "a step of more than rows");
    require(step.kind != Step::Norm || step.norm->size == size, "rows that do not fit their norm");
    require(step.kind != Step::Standardize || (step.shifts.size() == size_t(size) && step.scales.size() == size_t(size)),
            "rows that do not fit their scales");
    return read;
  }

  TowerOperation readTable(const Record& from, TowerOperation read) const {
    read.kind = Kind::Table;
    read.table = from.integer("table");
    requireInPlace(read);
    const TowerStep& step = stepOf(read);
    require(read.table >= 0 && size_t(read.table) < step.tables.size(), "no such table");
    const Matrix& table = *step.tables[size_t(read.table)];
    require(table.inputs() == read.to.size, "a table of another size");
    const Record& taps = from.object("taps");
    read.taps = {taps.integers("starts"), taps.integers("rows"), taps.floats("weights")};
    const std::vector<int32_t>& starts = read.taps.starts;
    require(starts.size() == size_t(read.to.rows) + 1 && starts.front() == 0 && starts.back() == int(read.taps.rows.size()) &&
                std::is_sorted(starts.begin(), starts.end()) && read.taps.weights.size() == read.taps.rows.size(),
            "taps of other rows");
    requireWithin(read.taps.rows, 0, table.outputs(), "a tap beyond the table");
    return read;
  }

  TowerOperation readGather(const Record& from, TowerOperation read) const {
    read.kind = Kind::Gather;
    read.members = from.integer("members");
    const std::string& by = from.text("by");
    read.by = by == "mean"       ? TowerOperation::Gathering::Mean
              : by == "channels" ? TowerOperation::Gathering::Channels
                                 : TowerOperation::Gathering::Cells;
    read.sources = from.integers("sources");
    const bool hasToken = stepOf(read).token.size() == size_t(read.from.size);
    const bool isMean = read.by == TowerOperation::Gathering::Mean;
    require(read.members > 0 && read.members <= 4096 && read.from.buffer != read.to.buffer &&
                read.to.size == (isMean ? read.from.size : read.members * read.from.size) &&
                read.sources.size() == size_t(read.to.rows) * size_t(read.members),
            "rows that cannot be gathered");
    requireWithin(read.sources, hasToken ? -1 : 0, read.from.rows, "a row that is not there");
    return read;
  }

  TowerOperation readBranch(const Record& from, const std::string& kind, TowerOperation read) const {
    read.kind = kind == "project" ? Kind::Project : kind == "attend" ? Kind::Attend : Kind::Mlp;
    require(read.kind != Kind::Mlp || kind == "mlp", "unknown operation: " + kind);
    requireInPlace(read);
    read.branch = from.integer("branch");
    const TowerStep& step = stepOf(read);
    require(read.branch >= 0 && size_t(read.branch) < step.branches.size(), "no such branch");
    const TowerBranch& branch = step.branches[size_t(read.branch)];
    const int size = read.to.size;
    const auto fits = [&](const std::optional<SizedNorm>& norm) { return !norm || norm->size == size; };
    require(fits(branch.input) && fits(branch.output) && (branch.scales.empty() || branch.scales.size() == size_t(size)),
            "rows that do not fit their branch");
    if (read.kind == Kind::Mlp) {
      const TowerMlp* mlp = std::get_if<TowerMlp>(&branch.body);
      require(mlp && mlp->up.inputs == size && mlp->down.outputs == size, "rows that do not fit their feed-forward");
      return read;
    }
    const GridAttention* attention = std::get_if<GridAttention>(&branch.body);
    require(attention && attention->query.inputs == size && attention->output.outputs == size,
            "rows that do not fit their attention");
    read.rotation = from.integer("rotation", -1);
    read.groups = from.integer("groups");
    require(read.groups >= 0 && size_t(read.groups) < program_.groups.size() &&
                program_.groups[size_t(read.groups)].order.size() == size_t(read.to.rows),
            "groups of other rows");
    if (read.rotation < 0) return read;
    require(size_t(read.rotation) < program_.rotations.size() &&
                program_.rotations[size_t(read.rotation)].size() ==
                    2 * attention->pairs.size() * size_t(read.to.rows),
            "rotations of other rows");
    return read;
  }

  const TowerProgram& program_;
  const Tower& tower_;
};

}  // namespace

TowerProgram readProgram(const Record& from, const Tower& tower) {
  TowerProgram read;
  read.width = from.integer("width");
  read.height = from.integer("height");
  read.values = from.floats("values", 3 * 256);
  for (const Record& rotation : from.list("rotations")) read.rotations.push_back(rotation.floats("values"));
  for (const Record& groups : from.list("groups")) read.groups.push_back(readGroups(groups));
  const OperationReader reader(read, tower);
  for (const Record& operation : from.list("operations")) read.operations.push_back(reader.read(operation));
  for (const Record& output : from.list("outputs")) read.outputs.push_back(readRows(output));
  return read;
}

}  // namespace chairlift
