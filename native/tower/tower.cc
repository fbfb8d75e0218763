// See tower.h.

#include "tower/tower.h"

namespace chairlift {

namespace {

std::optional<Bounds> readBounds(const Record& from, const char* name) {
  const std::vector<double> both = from.numbers(name);
  require(both.size() == 2, "bounds that are not two");
  return Bounds{float(both[0]), float(both[1])};
}

TowerLinear readTowerLinear(const Record& from, const Reader& reader) {
  TowerLinear read;
  const int number = from.integer("matrix");
  read.outputs = reader.outputsOf(from);
  read.inputs = reader.inputsOf(number);
  read.linear = reader.linear(from, read.outputs, read.inputs);
  if (const Record* bounds = from.maybe("bounds")) {
    read.inputBounds = readBounds(*bounds, "inputs");
    read.outputBounds = readBounds(*bounds, "outputs");
  }
  return read;
}

SizedNorm readSizedNorm(const Record& from) {
  const int size = from.integer("size");
  require(size > 0, "a norm of nothing");
  return {readNorm(from, size), size};
}

std::optional<SizedNorm> maybeSizedNorm(const Record& from, const char* name) {
  if (const Record* norm = from.maybe(name)) return readSizedNorm(*norm);
  return std::nullopt;
}

Curve readTowerCurve(const Record& from) {
  if (from.isText("activation") && from.text("activation") == "quick-gelu") return {Activation::QuickGelu};
  const Curve curve = readCurve(from);
  require(curve.kind != Activation::Clamped, "a clamped activation of a tower");
  return curve;
}

TowerMlp readTowerMlp(const Record& from, const Reader& reader) {
  TowerMlp read;
  read.curve = readTowerCurve(from);
  read.up = readTowerLinear(from.object("up"), reader);
  read.down = readTowerLinear(from.object("down"), reader);
  if (from.has("gate")) read.gate = readTowerLinear(from.object("gate"), reader);
  require(read.down.inputs == read.up.outputs, "a feed-forward whose maps do not fit");
  require(!read.gate || (read.gate->outputs == read.up.outputs && read.gate->inputs == read.up.inputs),
          "a gate that does not fit");
  return read;
}

std::optional<SizedNorm> maybeHeadNorm(const Record& from, const char* name, const GridAttention& attention) {
  auto read = maybeSizedNorm(from, name);
  require(!read || read->size == attention.headSize || read->size == attention.width(), "a norm that fits no heads");
  return read;
}

GridAttention readGridAttention(const Record& from, const Reader& reader) {
  GridAttention read;
  read.headCount = from.integer("headCount");
  read.headSize = from.integer("headSize");
  require(read.headCount > 0 && read.headSize > 0 && read.headSize <= maxHeadSize, "heads of a size that none has");
  read.query = readTowerLinear(from.object("query"), reader);
  read.key = readTowerLinear(from.object("key"), reader);
  read.value = readTowerLinear(from.object("value"), reader);
  read.output = readTowerLinear(from.object("output"), reader);
  for (const TowerLinear* map : {&read.query, &read.key, &read.value}) {
    require(map->outputs == read.width() && map->inputs == read.query.inputs, "maps that do not fit their heads");
  }
  require(read.output.inputs == read.width(), "an output that does not fit its heads");
  read.queryNorm = maybeHeadNorm(from, "queryNorm", read);
  read.keyNorm = maybeHeadNorm(from, "keyNorm", read);
  read.valueNorm = maybeHeadNorm(from, "valueNorm", read);
  read.scale = float(from.number("scale"));
  if (const Record* rope = from.maybe("rope")) {
    for (const Record& pair : rope->list("pairs")) {
      const int first = pair.integer("first"), second = pair.integer("second");
      require(first >= 0 && first < read.headSize && second >= 0 && second < read.headSize, "a pair beyond its head");
      read.pairs.push_back({first, second});
    }
  }
  return read;
}

TowerBranch readTowerBranch(const Record& from, const Reader& reader) {
  TowerBranch read;
  const Record& body = from.object("body");
  if (body.text("kind") == "grid-attention") read.body = readGridAttention(body, reader);
  else read.body = readTowerMlp(body, reader);
  read.input = maybeSizedNorm(from, "input");
  read.output = maybeSizedNorm(from, "output");
  if (from.has("scales")) read.scales = from.floats("scales");
  return read;
}

PatchMaps readPatches(const Record& from, const Reader& reader) {
  PatchMaps read;
  read.size = from.integer("size");
  read.frames = from.integer("frames");
  read.channelsFirst = from.text("order") == "channels-first";
  for (const Record& linear : from.list("linears")) read.linears.push_back(readTowerLinear(linear, reader));
  require(read.size > 0 && read.frames > 0 && !read.linears.empty(), "patches without a map");
  for (const TowerLinear& linear : read.linears) {
    require(linear.inputs == read.values() && linear.outputs == read.linears[0].outputs, "maps that do not fit their patches");
  }
  return read;
}

TowerStep readStep(const Record& from, const Reader& reader) {
  using Kind = TowerStep::Kind;
  TowerStep read;
  const std::string& kind = from.text("kind");
  const auto table = [&](const char* name) {
    const Record& own = from.object(name);
    read.kind = Kind::Tables;
    read.tables.push_back(reader.table(own, own.integer("rows"), reader.inputsOf(own.integer("matrix"))));
  };
  read.epsilon = float(from.number("epsilon", 0));
  if (kind == "patches") {
    read.kind = Kind::Patches;
    read.patches = readPatches(from, reader);
  } else if (kind == "linear") {
    read.kind = Kind::Linear;
    read.linear = readTowerLinear(from.object("linear"), reader);
  } else if (kind == "norm") {
    read.kind = Kind::Norm;
    read.norm = readSizedNorm(from.object("norm"));
  } else if (kind == "activation") {
    read.kind = Kind::Activation;
    read.curve = readTowerCurve(from);
  } else if (kind == "affine") {
    read.kind = Kind::Affine;
    read.factor = float(from.number("factor"));
    read.shift = float(from.number("shift"));
  } else if (kind == "standardize") {
    read.kind = Kind::Standardize;
    read.shifts = from.floats("shifts");
    read.scales = from.floats("scales");
  } else if (kind == "class-token") {
    read.kind = Kind::Token;
    read.token = from.floats("token");
  } else if (kind == "position-table" || kind == "position-grid") {
    table("table");
  } else if (kind == "position-axes") {
    table("rows");
    table("columns");
  } else if (kind == "layer") {
    read.kind = Kind::Layer;
    for (const Record& branch : from.list("branches")) read.branches.push_back(readTowerBranch(branch, reader));
  } else if (kind == "feed-forward") {
    read.kind = Kind::FeedForward;
    read.mlp = readTowerMlp(from.object("mlp"), reader);
  } else {
    require(kind == "drop-class-token" || kind == "merge" || kind == "pool", "unknown step of a tower: " + kind);
  }
  return read;
}

}  // namespace

Tower readTower(const Record& steps, const std::vector<std::shared_ptr<Matrix>>& matrices) {
  const Reader reader(matrices);
  Tower read;
  for (const Record& step : steps.items()) read.steps.push_back(readStep(step, reader));
  return read;
}

}  // namespace chairlift
