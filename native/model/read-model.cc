// Reads a whole model: see reader.h.

#include "model/reader.h"

namespace chairlift {

namespace {

KvCache readCache(const Record& cache) {
  const KvCache read{cache.integer("headCount"), cache.integer("headSize"), cache.integer("valuesInKeys", 0)};
  require(read.headCount > 0 && read.headSize > 0, "a cache without heads");
  require(read.headSize <= maxHeadSize, "heads of more than 1,024 values");
  require(read.valuesInKeys >= 0 && read.valuesInKeys <= read.headSize, "values beyond their keys");
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
    model.ropes.push_back({rope.numbers("inverseFrequencies"), float(rope.number("magnitude"))});
  }
  model.kv.caches = readCaches(from.object("caches"));
  readEmbedding(from, reader);
  if (const Record* inputs = from.maybe("perLayerInputs")) model.perLayerInputs = readPerLayerInputs(*inputs, reader);
  if (const Record* altUp = from.maybe("altUp")) model.altUp = readAltUp(*altUp, reader);
  for (const Record& layer : from.list("layers")) model.layers.push_back(readLayer(layer, reader));
  model.finalNorm = maybeNorm(from, "finalNorm", model.hiddenSize);
  model.head = reader.linear(from.object("head"), model.vocabSize, model.hiddenSize);
  return std::move(model);
}

}  // namespace chairlift
