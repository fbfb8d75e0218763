// See reader.h.

#include "model/reader.h"

#include <algorithm>

#include "layers/registry.h"

namespace chairlift {

namespace {

bool endsWith(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

}  // namespace

std::shared_ptr<Matrix> Reader::matrix(const Record& from, const char* name, int outputs, int inputs,
                                       int members) const {
  const int number = from.integer(name);
  require(number >= 0 && size_t(number) < matrices_.size(), "no such matrix");
  const auto& found = matrices_[size_t(number)];
  require(found->outputs() == outputs && found->inputs() == inputs && found->members() == members,
          "a matrix of another shape");
  return found;
}

std::shared_ptr<Matrix> Reader::table(const Record& from, int rows, int columns) const {
  return matrix(from, "matrix", rows, columns, 1);
}

int Reader::outputsOf(const Record& linear) const {
  const int number = linear.integer("matrix");
  require(number >= 0 && size_t(number) < matrices_.size(), "no such matrix");
  return matrices_[size_t(number)]->outputs();
}

int Reader::inputsOf(int matrix) const {
  require(matrix >= 0 && size_t(matrix) < matrices_.size(), "no such matrix");
  return matrices_[size_t(matrix)]->inputs();
}

void Reader::join(Linear& to, const Record& from, size_t offset, int outputs, int inputs, int members) const {
  Linear::Part part{matrix(from, "matrix", outputs, inputs, members), {}, offset};
  const std::vector<float> bias = from.maybeFloats("bias", size_t(outputs) * size_t(members));
  if (!bias.empty()) {
    const size_t padded = size_t(part.matrix->panels()) * panelColumns;
    part.bias.resize(padded * size_t(members));
    for (size_t member = 0; member < size_t(members); member++) {
      std::copy_n(&bias[member * size_t(outputs)], outputs, &part.bias[member * padded]);
    }
  }
  to.parts.push_back(std::move(part));
  // Parts may be rows of one tensor.
  const std::string& own = from.text("name");
  if (to.name.empty()) to.name = own;
  else if (to.parts.size() > 1 && !endsWith(to.name, own)) to.name += " + " + own;
  for (const Record& one : from.list("additions")) {
    to.additions.push_back(addition(one, offset, outputs, inputs, members));
    to.additions.back().down.name = own + ", an adapter's down";
    to.additions.back().up.name = own + ", an adapter's up";
  }
}

Linear Reader::linear(const Record& from, int outputs, int inputs, int members) const {
  Linear read;
  join(read, from, 0, outputs, inputs, members);
  return read;
}

Addition Reader::addition(const Record& from, size_t offset, int outputs, int inputs, int members) const {
  const int added = from.integer("members");
  require(added > 0 && added <= members, "an adapter of other members");
  const size_t factors = size_t(outputs) * size_t(added);
  Addition read{from.integer("adapter"), float(from.number("scale")), from.integer("rank"), outputs, {}, {}, offset,
                from.integer("firstMember"), added, from.maybeFloats("factors", factors),
                from.maybeFloats("shifts", factors)};
  require(read.firstMember >= 0 && read.firstMember <= members - added, "an adapter of other members");
  require(read.rank > 0, "an adapter of no rank");
  require(read.factors.size() == read.shifts.size(), "factors of an adapter without shifts");
  read.down.parts.push_back({matrix(from, "down", read.rank, inputs, added), {}, 0});
  read.up.parts.push_back({matrix(from, "up", outputs, read.rank, added), {}, 0});
  return read;
}

Part Reader::part(const Record& from) {
  return {maybeNorm(from, "input", model.hiddenSize), readBody(from.object("body"), *this),
          maybeNorm(from, "output", model.hiddenSize)};
}

const KvCache& Reader::cache(int index) const {
  require(index >= 0 && size_t(index) < model.kv.caches.size(), "no such cache");
  return model.kv.caches[size_t(index)];
}

void Reader::checkRope(int index, int headSize) const {
  require(index >= 0 && size_t(index) < model.ropes.size(), "no such rope");
  require(2 * model.ropes[size_t(index)].pairs() <= size_t(headSize), "a rope wider than its heads");
}

int Reader::takeState(const Record& from, const StateLayout& layout) {
  const int state = from.integer("state");
  require(state == int(model.recurrentStates.size()), "recurrent states out of order");
  model.recurrentStates.push_back(layout);
  return state;
}

Norm readNorm(const Record& from, int size) {
  Norm read;
  read.kind = from.text("kind") == "layer" ? NormKind::Layer : NormKind::Rms;
  read.weight = from.has("weight") ? from.floats("weight", size_t(size)) : std::vector<float>(size_t(size), 1.0f);
  read.bias = from.maybeFloats("bias", size_t(size));
  read.weight.resize(paddedLength(size));
  if (!read.bias.empty()) read.bias.resize(paddedLength(size));
  return read;
}

std::optional<Norm> maybeNorm(const Record& from, const char* name, int size) {
  if (const Record* norm = from.maybe(name)) return readNorm(*norm, size);
  return std::nullopt;
}

Curve readCurve(const Record& body) {
  if (!body.isText("activation")) {
    const Record& clamped = body.object("activation");
    return {Activation::Clamped, float(clamped.number("limit")), float(clamped.number("slope"))};
  }
  const std::string& name = body.text("activation");
  if (name == "silu") return {Activation::Silu};
  if (name == "gelu-tanh") return {Activation::GeluTanh};
  require(name == "gelu", "unknown activation: " + name);
  return {Activation::Gelu};
}

namespace {

KvCache readCache(const Record& cache) {
  const KvCache read{cache.integer("headCount"), cache.integer("headSize"), cache.integer("valuesInKeys", 0)};
  require(read.headCount > 0 && read.headSize > 0, "a cache without heads");
  require(read.headSize <= maxHeadSize, "heads of more than 1,024 values");
  require(read.valuesInKeys >= 0 && read.valuesInKeys <= read.headSize, "values beyond their keys");
  return read;
}

Rope readRope(const Record& from) {
  Rope read{from.numbers("inverseFrequencies"), {}, float(from.number("magnitude"))};
  if (from.has("axes")) read.axes = from.numbers("axes");
  require(read.axes.empty() || read.axes.size() == read.pairs(), "a rope with other axes than pairs");
  for (const double axis : read.axes) require(axis == 0 || axis == 1 || axis == 2, "an axis that is none of three");
  return read;
}

EmbeddingAddition readEmbeddingAddition(const Record& from, const Reader& reader) {
  EmbeddingAddition read{from.integer("adapter"), float(from.number("scale")), from.integer("rank"), {}, {}};
  require(read.rank > 0, "an adapter of no rank");
  read.table = reader.table(from.object("table"), reader.model.vocabSize, read.rank);
  read.up.parts.push_back({reader.table(from.object("up"), reader.model.hiddenSize, read.rank), {}, 0});
  return read;
}

void readEmbedding(const Record& from, Reader& reader) {
  ModelParts& model = reader.model;
  const int hidden = model.hiddenSize;
  model.embedding = reader.table(from.object("embedding"), model.vocabSize, hidden);
  if (const Record* additions = from.maybe("embeddingAdditions")) {
    for (const Record& addition : additions->items()) {
      model.embeddingAdditions.push_back(readEmbeddingAddition(addition, reader));
    }
  }
  if (const Record* positions = from.maybe("positions")) {
    const int rows = positions->integer("rows");
    require(rows >= from.integer("contextLength"), "fewer positions than the context has");
    model.positions = reader.table(*positions, rows, hidden);
  }
  model.textKind = from.maybeFloats("textKind", size_t(hidden));
  if (!model.textKind.empty()) model.textKind.resize(paddedLength(hidden));
  model.embeddingNorm = maybeNorm(from, "embeddingNorm", hidden);
}

Branch readBranch(const Record& from, Reader& reader) {
  const int hidden = reader.model.hiddenSize;
  Branch read;
  for (const Record& part : from.list("parts")) read.parts.push_back(reader.part(part));
  require(!read.parts.empty(), "a branch without parts");
  read.output = maybeNorm(from, "output", hidden);
  read.scale = float(from.number("scale", 1));
  read.streamScale = float(from.number("streamScale", 1));
  read.streamNorm = maybeNorm(from, "streamNorm", hidden);
  return read;
}

Layer readLayer(const Record& from, Reader& reader) {
  Layer read;
  for (const Record& branch : from.list("branches")) read.branches.push_back(readBranch(branch, reader));
  if (const Record* altUp = from.maybe("altUp")) read.altUp = readLayerAltUp(*altUp, reader);
  return read;
}

Features readFeatures(const Record& from, const Reader& reader) {
  Features read;
  for (const double layers : from.numbers("after")) {
    require(layers >= 0 && layers < double(reader.model.layers.size()), "features of layers that are not there");
    read.after.push_back(int(layers));
  }
  const int hidden = reader.model.hiddenSize;
  read.projection = reader.linear(from.object("projection"), hidden, int(read.after.size()) * hidden);
  return read;
}

Mtp readMtp(const Record& from, Reader& reader) {
  ModelParts& model = reader.model;
  const int hidden = model.hiddenSize;
  Mtp read;
  read.normEpsilon = float(from.number("normEpsilon", model.normEpsilon));
  if (const Record* embedding = from.maybe("embedding")) read.embedding = reader.table(*embedding, model.vocabSize, hidden);
  read.embeddingNorm = readNorm(from.object("embeddingNorm"), hidden);
  read.stateNorm = readNorm(from.object("stateNorm"), hidden);
  if (const Record* features = from.maybe("features")) read.features = readFeatures(*features, reader);
  read.beforeNorm = from.flag("beforeNorm");
  if (const Record* both = from.maybe("projection")) read.projection = reader.linear(*both, hidden, 2 * hidden);
  read.stateFirst = from.flag("stateFirst");
  read.addsToNormed = from.flag("addsToNormed");
  read.layer = readLayer(from.object("layer"), reader);
  read.finalNorm = readNorm(from.object("finalNorm"), hidden);
  if (const Record* tokens = from.maybe("tokens")) {
    for (const Record& token : tokens->items()) read.tokens.push_back(token.wholeNumber("tokens"));
  }
  for (const int32_t token : read.tokens) require(token >= 0 && token < model.vocabSize, "no such token");
  const int outputs = read.tokens.empty() ? model.vocabSize : int(read.tokens.size());
  if (const Record* output = from.maybe("output")) read.output = reader.linear(*output, outputs, hidden);
  require(read.tokens.empty() || read.output, "tokens of an MTP head without an output");
  require(model.finalNorm.has_value(), "an MTP head without a norm of its states");
  require(!read.layer.branches.empty() && read.layer.branches[0].parts.size() == 1 &&
              read.layer.branches[0].parts[0].input.has_value() == read.projection.has_value(),
          "an MTP head without attention behind a norm");
  model.kv.stateSize = hidden;
  return read;
}

}  // namespace

std::vector<KvCache> readCaches(const Record& caches) {
  std::vector<KvCache> read;
  for (const Record& cache : caches.items()) read.push_back(readCache(cache));
  return read;
}

ModelParts readModel(const Record& from, const std::vector<std::shared_ptr<Matrix>>& matrices) {
  Reader reader(matrices);
  ModelParts& model = reader.model;
  model.hiddenSize = from.integer("hiddenSize");
  model.vocabSize = from.integer("vocabSize");
  model.normEpsilon = float(from.number("normEpsilon"));
  model.embeddingScale = float(from.number("embeddingScale"));
  model.logitScale = float(from.number("logitScale", 1));
  model.logitSoftcap = float(from.number("logitSoftcap", 0));
  for (const Record& rope : from.list("ropes")) {
    model.ropes.push_back(readRope(rope));
  }
  model.kv.caches = readCaches(from.object("caches"));
  readEmbedding(from, reader);
  if (const Record* inputs = from.maybe("perLayerInputs")) model.perLayerInputs = readPerLayerInputs(*inputs, reader);
  if (const Record* altUp = from.maybe("altUp")) model.altUp = readAltUp(*altUp, reader);
  for (const Record& layer : from.list("layers")) model.layers.push_back(readLayer(layer, reader));
  model.finalNorm = maybeNorm(from, "finalNorm", model.hiddenSize);
  model.head = reader.linear(from.object("head"), model.vocabSize, model.hiddenSize);
  if (const Record* mtp = from.maybe("mtp")) model.mtp = readMtp(*mtp, reader);
  return std::move(model);
}

}  // namespace chairlift
