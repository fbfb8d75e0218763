// See read-model.h.

#include "addon/read-model.h"

#include "addon/script-object.h"

namespace chairlift {

namespace {

void require(bool holds, const char* what) {
  if (!holds) throw ScriptError(std::string("native addon: a model's description: ") + what);
}

KvCache readCache(const ScriptObject& cache) {
  const KvCache read{cache.integer("headCount"), cache.integer("headSize"), cache.integer("valuesInKeys", 0)};
  require(read.headCount > 0 && read.headSize > 0, "a cache without heads");
  require(read.headSize <= maxHeadSize, "heads of more than 1,024 values");
  require(read.valuesInKeys >= 0 && read.valuesInKeys <= read.headSize, "values beyond their keys");
  return read;
}

Rope readRope(const ScriptObject& rope) { return {rope.doubles("inverseFrequencies"), float(rope.number("magnitude"))}; }

Norm readNorm(const ScriptObject& norm, int size) {
  Norm read;
  read.kind = norm.text("kind") == "layer" ? NormKind::Layer : NormKind::Rms;
  read.weight = norm.has("weight") ? norm.floats("weight") : std::vector<float>(size_t(size), 1.0f);
  read.bias = norm.floats("bias");
  require(read.weight.size() == size_t(size), "a norm of another size");
  require(read.bias.empty() || read.bias.size() == size_t(size), "a norm's bias of another size");
  read.weight.resize(paddedLength(size));
  if (!read.bias.empty()) read.bias.resize(paddedLength(size));
  return read;
}

std::optional<Norm> maybeNorm(const ScriptObject& from, const char* name, int size) {
  if (!from.has(name)) return std::nullopt;
  return readNorm(from.object(name), size);
}

std::optional<HeadNorm> maybeHeadNorm(const ScriptObject& from, const char* name, int headSize, int heads) {
  if (!from.has(name)) return std::nullopt;
  const ScriptObject norm = from.object(name);
  const std::string text = norm.text("over");
  const HeadNorm::Over over = text == "all"    ? HeadNorm::Over::All
                              : text == "each" ? HeadNorm::Over::Each
                                                : HeadNorm::Over::Head;
  return HeadNorm{readNorm(norm.object("norm"), over == HeadNorm::Over::Head ? headSize : headSize * heads), over};
}

/** A name, or the limit and the slope of a clamped one. */
Curve readCurve(const ScriptObject& body) {
  if (!body.isText("activation")) {
    const ScriptObject clamped = body.object("activation");
    return {Activation::Clamped, float(clamped.number("limit")), float(clamped.number("slope"))};
  }
  const std::string name = body.text("activation");
  if (name == "silu") return {Activation::Silu};
  if (name == "gelu-tanh") return {Activation::GeluTanh};
  require(name == "gelu", "an unknown activation");
  return {Activation::Gelu};
}

class ModelReader {
 public:
  ModelReader(const ScriptObject& model, const std::vector<std::shared_ptr<Matrix>>& matrices)
      : model_(model), matrices_(matrices) {}

  ModelParts read() {
    parts_.hiddenSize = model_.integer("hiddenSize");
    parts_.vocabSize = model_.integer("vocabSize");
    parts_.normEpsilon = float(model_.number("normEpsilon"));
    parts_.embeddingScale = float(model_.number("embeddingScale"));
    parts_.logitScale = float(model_.number("logitScale", 1));
    parts_.logitSoftcap = float(model_.number("logitSoftcap", 0));
    for (const ScriptObject& rope : model_.list("ropes")) parts_.ropes.push_back(readRope(rope));
    for (const ScriptObject& cache : model_.list("caches")) parts_.kv.caches.push_back(readCache(cache));
    parts_.embedding = tableAt(model_.object("embedding"), parts_.vocabSize, parts_.hiddenSize);
    if (model_.has("embeddingAdditions")) {
      for (const ScriptObject& addition : model_.list("embeddingAdditions")) {
        parts_.embeddingAdditions.push_back(readEmbeddingAddition(addition));
      }
    }
    readAddedToEmbeddings();
    if (const auto inputs = model_.maybe("perLayerInputs")) parts_.perLayerInputs = readPerLayerInputs(*inputs);
    if (const auto altUp = model_.maybe("altUp")) parts_.altUp = readAltUp(*altUp);
    for (const ScriptObject& layer : model_.list("layers")) parts_.layers.push_back(readLayer(layer));
    parts_.finalNorm = maybeNorm(model_, "finalNorm", parts_.hiddenSize);
    join(parts_.head, model_.object("head"), 0, parts_.vocabSize, parts_.hiddenSize);
    return std::move(parts_);
  }

 private:
  std::shared_ptr<Matrix> matrixAt(int number, int outputs, int inputs, int members) const {
    require(number >= 0 && size_t(number) < matrices_.size(), "no such matrix");
    const auto& matrix = matrices_[size_t(number)];
    require(matrix->outputs() == outputs && matrix->inputs() == inputs && matrix->members() == members,
            "a matrix of another shape");
    return matrix;
  }

  std::shared_ptr<Matrix> tableAt(const ScriptObject& table, int rows, int columns) const {
    return matrixAt(table.integer("matrix"), rows, columns, 1);
  }

  int outputsOf(const ScriptObject& linear) const {
    const int number = linear.integer("matrix");
    require(number >= 0 && size_t(number) < matrices_.size(), "no such matrix");
    return matrices_[size_t(number)]->outputs();
  }

  void readAddedToEmbeddings() {
    const int hidden = parts_.hiddenSize;
    if (const auto positions = model_.maybe("positions")) {
      const int rows = positions->integer("rows");
      require(rows >= model_.integer("contextLength"), "fewer positions than texts may have");
      parts_.positions = tableAt(*positions, rows, hidden);
    }
    parts_.textKind = model_.floats("textKind");
    require(parts_.textKind.empty() || parts_.textKind.size() == size_t(hidden), "a kind of text of another size");
    if (!parts_.textKind.empty()) parts_.textKind.resize(paddedLength(hidden));
    parts_.embeddingNorm = maybeNorm(model_, "embeddingNorm", hidden);
  }

  /** Adds a linear map that writes from `offset` on. */
  void join(Linear& linear, const ScriptObject& from, size_t offset, int outputs, int inputs, int members = 1) const {
    Linear::Part part{matrixAt(from.integer("matrix"), outputs, inputs, members), {}, offset};
    const std::vector<float> bias = from.floats("bias");
    if (!bias.empty()) {
      require(bias.size() == size_t(outputs) * size_t(members), "a bias of another size");
      const size_t padded = size_t(part.matrix->panels()) * panelColumns;
      part.bias.resize(padded * size_t(members));
      for (size_t member = 0; member < size_t(members); member++) {
        const float* own = &bias[member * size_t(outputs)];
        std::copy(own, own + outputs, &part.bias[member * padded]);
      }
    }
    linear.parts.push_back(std::move(part));
    for (const ScriptObject& addition : from.list("additions")) {
      linear.additions.push_back(readAddition(addition, offset, outputs, inputs, members));
    }
  }

  Addition readAddition(const ScriptObject& from, size_t offset, int outputs, int inputs, int members) const {
    Addition read{from.integer("adapter"), float(from.number("scale")), from.integer("rank"), outputs, {}, {}, offset,
                  from.integer("firstMember"), from.integer("members"), from.floats("factors"), from.floats("shifts")};
    require(read.firstMember >= 0 && read.members > 0 && read.firstMember <= members - read.members,
            "an adapter of other members");
    require(read.rank > 0, "an adapter of no rank");
    require(read.factors.size() == read.shifts.size(), "factors of an adapter without shifts");
    require(read.factors.empty() || read.factors.size() == size_t(outputs) * size_t(read.members), "factors of another size");
    read.down.parts.push_back({matrixAt(from.integer("down"), read.rank, inputs, read.members), {}, 0});
    read.up.parts.push_back({matrixAt(from.integer("up"), outputs, read.rank, read.members), {}, 0});
    return read;
  }

  EmbeddingAddition readEmbeddingAddition(const ScriptObject& from) const {
    EmbeddingAddition read{from.integer("adapter"), float(from.number("scale")), from.integer("rank"), {}, {}};
    require(read.rank > 0, "an adapter of no rank");
    read.table = tableAt(from.object("table"), parts_.vocabSize, read.rank);
    read.up.parts.push_back({tableAt(from.object("up"), parts_.hiddenSize, read.rank), {}, 0});
    return read;
  }

  AltUpMaps readAltUp(const ScriptObject& from) const {
    const auto readAll = [&](const char* name) {
      std::vector<Linear> all;
      for (const ScriptObject& linear : from.list(name)) {
        all.emplace_back();
        join(all.back(), linear, 0, parts_.hiddenSize, parts_.hiddenSize);
      }
      return all;
    };
    AltUpMaps read{readAll("spread"), readAll("gather")};
    require(read.spread.size() == read.gather.size(), "AltUp streams that are not merged");
    return read;
  }

  Layer readLayer(const ScriptObject& layer) {
    Layer read;
    for (const ScriptObject& branch : layer.list("branches")) read.branches.push_back(readBranch(branch));
    if (const auto altUp = layer.maybe("altUp")) read.altUp = readLayerAltUp(*altUp);
    return read;
  }

  LayerAltUp readLayerAltUp(const ScriptObject& from) {
    require(parts_.altUp.has_value(), "an AltUp layer in a model without AltUp");
    const int hidden = parts_.hiddenSize, count = int(parts_.altUp->spread.size()) + 1;
    LayerAltUp read;
    read.mixing.norm = readNorm(from.object("norm"), hidden);
    join(read.mixing.features, from.object("features"), 0, count, hidden);
    join(read.mixing.prediction, from.object("prediction"), 0, count * count, count);
    join(read.mixing.correction, from.object("correction"), 0, count, count);
    read.perLayer = readPart(from.object("perLayer"));
    read.perLayerScale = from.floats("perLayerScale");
    require(read.perLayerScale.empty() || read.perLayerScale.size() == size_t(hidden), "factors for another stream");
    return read;
  }

  Part readPart(const ScriptObject& part) {
    return {maybeNorm(part, "input", parts_.hiddenSize), readBody(part.object("body")),
            maybeNorm(part, "output", parts_.hiddenSize)};
  }

  Branch readBranch(const ScriptObject& branch) {
    Branch read;
    for (const ScriptObject& part : branch.list("parts")) read.parts.push_back(readPart(part));
    require(!read.parts.empty(), "a branch without parts");
    read.output = maybeNorm(branch, "output", parts_.hiddenSize);
    read.scale = float(branch.number("scale", 1));
    read.streamScale = float(branch.number("streamScale", 1));
    read.streamNorm = maybeNorm(branch, "streamNorm", parts_.hiddenSize);
    return read;
  }

  Body readBody(const ScriptObject& body) {
    const std::string kind = body.text("kind");
    if (kind == "attention") return readAttention(body);
    if (kind == "mla") return readMla(body);
    if (kind == "mlp") return readMlp(body, 1);
    if (kind == "moe") return readMoe(body);
    if (kind == "gated-delta-net") return readGatedDeltaNet(body);
    if (kind == "short-conv") return readShortConv(body);
    if (kind == "mamba2") return readMamba2(body);
    if (kind == "per-layer-input") return readPerLayerInput(body);
    require(kind == "laurel", "an unknown body");
    return readLaurel(body);
  }

  Laurel readLaurel(const ScriptObject& from) const {
    Laurel read;
    read.rank = outputsOf(from.object("down"));
    join(read.down, from.object("down"), 0, read.rank, parts_.hiddenSize);
    join(read.up, from.object("up"), 0, parts_.hiddenSize, read.rank);
    read.norm = readNorm(from.object("norm"), parts_.hiddenSize);
    return read;
  }

  PerLayerInput readPerLayerInput(const ScriptObject& from) const {
    require(parts_.perLayerInputs.has_value(), "a layer's input without any");
    PerLayerInput read;
    read.index = from.integer("index");
    read.size = parts_.perLayerInputs->size;
    require(read.index >= 0 && read.index < parts_.perLayerInputs->count, "no such layer's input");
    read.curve = readCurve(from);
    require(read.curve.kind != Activation::Clamped, "a clamped activation of a layer's input");
    join(read.gate, from.object("gate"), 0, read.size, parts_.hiddenSize);
    join(read.output, from.object("output"), 0, parts_.hiddenSize, read.size);
    return read;
  }

  PerLayerInputs readPerLayerInputs(const ScriptObject& from) const {
    PerLayerInputs read;
    read.count = from.integer("count");
    read.size = from.integer("size");
    require(read.count > 0 && read.size > 0, "inputs of no layer");
    const ScriptObject table = from.object("table");
    read.table = tableAt(table, table.integer("rows"), read.width());
    read.tableScale = float(from.number("tableScale"));
    join(read.projection, from.object("projection"), 0, read.width(), parts_.hiddenSize);
    read.projectionScale = float(from.number("projectionScale"));
    read.norm = readNorm(from.object("norm"), read.size);
    return read;
  }

  /** Bodies take their recurrent states in order. */
  int takeState(const ScriptObject& from, const StateLayout& layout) {
    require(from.integer("state") == int(parts_.recurrentStates.size()), "recurrent states out of order");
    parts_.recurrentStates.push_back(layout);
    return from.integer("state");
  }

  /** Weights come channel by channel; kernels want them tap by tap. */
  static Convolution readConvolution(const ScriptObject& from, const StateLayout& layout, bool activates) {
    const std::vector<float> weights = from.floats("weight"), bias = from.floats("bias");
    const size_t channels = size_t(layout.channels), taps = size_t(layout.taps), stride = layout.channelStride();
    require(weights.size() == channels * taps, "a convolution of another size");
    require(bias.empty() || bias.size() == channels, "a convolution's bias of another size");
    Convolution read;
    read.activates = activates;
    read.weights.resize(taps * stride);
    for (size_t channel = 0; channel < channels; channel++) {
      for (size_t tap = 0; tap < taps; tap++) read.weights[tap * stride + channel] = weights[channel * taps + tap];
    }
    read.bias = bias;
    if (!bias.empty()) read.bias.resize(stride);
    return read;
  }

  static std::vector<float> readPerHead(const ScriptObject& from, const char* name, int heads) {
    std::vector<float> values = from.floats(name);
    require(values.size() == size_t(heads), "values for other heads");
    return values;
  }

  GatedDeltaNet readGatedDeltaNet(const ScriptObject& from) {
    const int hidden = parts_.hiddenSize;
    GatedDeltaNet read;
    read.keyHeads = from.integer("keyHeads");
    read.keySize = from.integer("keySize");
    read.valueHeads = from.integer("valueHeads");
    read.valueSize = from.integer("valueSize");
    require(read.keyHeads > 0 && read.keySize > 0 && read.valueSize > 0 && read.valueHeads > 0 &&
                read.valueHeads % read.keyHeads == 0,
            "heads that do not fit each other");
    read.strided = from.text("sharing") == "strided";
    read.taps = from.object("convolution").integer("length");
    require(read.taps > 0, "a convolution of nothing");
    const StateLayout layout = read.layout();
    read.state = takeState(from, layout);
    const size_t keyRows = size_t(read.keyRows());
    join(read.projection, from.object("query"), 0, read.keyRows(), hidden);
    join(read.projection, from.object("key"), keyRows, read.keyRows(), hidden);
    join(read.projection, from.object("value"), 2 * keyRows, read.valueRows(), hidden);
    join(read.projection, from.object("gate"), read.gateAt(), read.valueRows(), hidden);
    join(read.projection, from.object("share"), read.sharesAt(), read.valueHeads, hidden);
    join(read.projection, from.object("decay"), read.decaysAt(), read.valueHeads, hidden);
    join(read.output, from.object("output"), 0, hidden, read.valueRows());
    read.convolution = readConvolution(from.object("convolution"), layout, true);
    read.decayBias = readPerHead(from, "decayBias", read.valueHeads);
    read.rates = readPerHead(from, "decayRate", read.valueHeads);
    read.norm = readNorm(from.object("norm"), read.valueSize);
    return read;
  }

  ShortConv readShortConv(const ScriptObject& from) {
    const int hidden = parts_.hiddenSize;
    ShortConv read;
    read.size = from.integer("size");
    read.taps = from.object("convolution").integer("length");
    require(read.size > 0 && read.taps > 0, "a convolution of nothing");
    read.state = takeState(from, read.layout());
    join(read.projection, from.object("before"), 0, read.size, hidden);
    join(read.projection, from.object("value"), read.valueAt(), read.size, hidden);
    join(read.projection, from.object("after"), read.afterAt(), read.size, hidden);
    join(read.output, from.object("output"), 0, hidden, read.size);
    read.convolution = readConvolution(from.object("convolution"), read.layout(), false);
    return read;
  }

  Mamba2 readMamba2(const ScriptObject& from) {
    const int hidden = parts_.hiddenSize;
    Mamba2 read;
    read.heads = from.integer("heads");
    read.headSize = from.integer("headSize");
    read.stateSize = from.integer("stateSize");
    read.groups = from.integer("groups");
    read.taps = from.object("convolution").integer("length");
    require(read.heads > 0 && read.headSize > 0 && read.stateSize > 0 && read.groups > 0 && read.taps > 0 &&
                read.heads % read.groups == 0,
            "heads that do not fit their groups");
    const StateLayout layout = read.layout();
    read.state = takeState(from, layout);
    const size_t values = size_t(read.valueRows()), shared = size_t(read.groupRows());
    join(read.projection, from.object("value"), 0, read.valueRows(), hidden);
    join(read.projection, from.object("write"), values, read.groupRows(), hidden);
    join(read.projection, from.object("read"), values + shared, read.groupRows(), hidden);
    join(read.projection, from.object("gate"), read.gateAt(), read.valueRows(), hidden);
    join(read.projection, from.object("step"), read.stepsAt(), read.heads, hidden);
    join(read.output, from.object("output"), 0, hidden, read.valueRows());
    read.convolution = readConvolution(from.object("convolution"), layout, true);
    read.stepBias = readPerHead(from, "stepBias", read.heads);
    read.rates = readPerHead(from, "rate", read.heads);
    read.skip = readPerHead(from, "skip", read.heads);
    read.norm = readNorm(from.object("norm"), read.valueRows());
    return read;
  }

  Attention readAttention(const ScriptObject& from) const {
    const int hidden = parts_.hiddenSize;
    Attention read;
    read.headCount = from.integer("headCount");
    read.headSize = from.integer("headSize");
    read.cache = from.integer("cache");
    require(read.cache >= 0 && size_t(read.cache) < parts_.kv.caches.size(), "no such cache");
    const KvCache& cache = parts_.kv.caches[size_t(read.cache)];
    read.kvHeadCount = cache.headCount;
    require(read.headSize == cache.headSize && cache.valuesInKeys == 0 && read.headCount > 0 && read.headCount % cache.headCount == 0,
            "heads that do not fit those of their cache");
    const auto stored = from.maybe("stored");
    read.stores = stored.has_value();
    read.hasValues = stored && stored->has("value");
    read.hasGate = from.has("gate");
    join(read.projection, from.object("query"), 0, read.querySize(), hidden);
    if (stored) join(read.projection, stored->object("key"), read.keysAt(), read.kvSize(), hidden);
    if (read.hasValues) join(read.projection, stored->object("value"), read.valuesAt(), read.kvSize(), hidden);
    if (read.hasGate) join(read.projection, from.object("gate"), read.gateAt(), read.querySize(), hidden);
    join(read.output, from.object("output"), 0, hidden, read.querySize());
    read.queryNorm = maybeHeadNorm(from, "queryNorm", read.headSize, read.headCount);
    if (stored) {
      read.keyNorm = maybeHeadNorm(*stored, "keyNorm", read.headSize, read.kvHeadCount);
      read.valueNorm = maybeHeadNorm(*stored, "valueNorm", read.headSize, read.kvHeadCount);
    }
    read.normsAfterRope = from.flag("normsAfterRope");
    if (from.has("rope")) {
      const int rope = from.integer("rope");
      require(rope >= 0 && size_t(rope) < parts_.ropes.size(), "no such rope");
      require(2 * parts_.ropes[size_t(rope)].pairs() <= size_t(read.headSize), "a rope wider than its heads");
      read.rope = rope;
    }
    read.bidirectional = from.flag("bidirectional");
    read.window = from.integer("window", 0);
    read.chunk = from.integer("chunk", 0);
    read.scale = float(from.number("scale"));
    read.softcap = float(from.number("softcap", 0));
    read.sinks = from.floats("sinks");
    require(read.sinks.empty() || read.sinks.size() == size_t(read.headCount), "sinks for other heads");
    if (const auto growth = from.maybe("growth")) {
      read.growth = {growth->number("weight"), growth->number("length"), growth->number("shift")};
    }
    return read;
  }

  Mla readMla(const ScriptObject& from) const {
    const int hidden = parts_.hiddenSize;
    Mla read;
    read.headCount = from.integer("headCount");
    read.cache = from.integer("cache");
    read.kvLoraRank = from.integer("kvLoraRank");
    read.qkNopeHeadDim = from.integer("qkNopeHeadDim");
    read.qkRopeHeadDim = from.integer("qkRopeHeadDim");
    read.vHeadDim = from.integer("vHeadDim");
    const int heads = read.headCount;
    require(heads > 0 && read.kvLoraRank > 0 && read.qkNopeHeadDim > 0 && read.qkRopeHeadDim > 0 && read.vHeadDim > 0,
            "a latent of nothing");
    require(read.cache >= 0 && size_t(read.cache) < parts_.kv.caches.size(), "no such cache");
    const KvCache& cache = parts_.kv.caches[size_t(read.cache)];
    require(cache.headCount == 1 && cache.headSize == read.keySize() && cache.valuesInKeys == read.kvLoraRank,
            "a latent that does not fit its cache");
    join(read.projection, from.object("kvDown"), 0, read.kvLoraRank, hidden);
    join(read.projection, from.object("keyRope"), size_t(read.kvLoraRank), read.qkRopeHeadDim, hidden);
    read.kvNorm = readNorm(from.object("kvNorm"), read.kvLoraRank);
    if (const auto queryInput = from.maybe("queryInput")) {
      read.queryInputSize = outputsOf(queryInput->object("down"));
      join(read.projection, queryInput->object("down"), read.queryInputAt(), read.queryInputSize, hidden);
      read.queryInputNorm = readNorm(queryInput->object("norm"), read.queryInputSize);
    }
    const int seen = read.queryInputNorm ? read.queryInputSize : hidden;
    join(read.query, from.object("query"), 0, heads * read.qkNopeHeadDim, seen);
    join(read.query, from.object("queryRope"), read.queryRotatedAt(), heads * read.qkRopeHeadDim, seen);
    join(read.keyUp, from.object("keyUp"), 0, read.kvLoraRank, read.qkNopeHeadDim, heads);
    join(read.valueUp, from.object("valueUp"), 0, read.vHeadDim, read.kvLoraRank, heads);
    join(read.output, from.object("output"), 0, hidden, heads * read.vHeadDim);
    read.rope = from.integer("rope");
    require(read.rope >= 0 && size_t(read.rope) < parts_.ropes.size(), "no such rope");
    require(2 * parts_.ropes[size_t(read.rope)].pairs() <= size_t(read.qkRopeHeadDim), "a rope wider than its heads");
    read.scale = float(from.number("scale"));
    return read;
  }

  Mlp readMlp(const ScriptObject& from, int members) const {
    const int hidden = parts_.hiddenSize;
    Mlp read;
    read.size = from.integer("size");
    read.curve = readCurve(from);
    read.hasGate = from.has("gate");
    read.gated = from.has("share");
    require(read.hasGate || read.curve.kind != Activation::Clamped, "a clamped activation without a gate");
    if (read.hasGate && from.has("gateCutoff")) read.gateCutoff = float(from.number("gateCutoff"));
    if (read.hasGate) join(read.projection, from.object("gate"), 0, read.size, hidden, members);
    join(read.projection, from.object("up"), read.upAt(), read.size, hidden, members);
    if (read.gated) join(read.projection, from.object("share"), read.shareAt(), 1, hidden, members);
    join(read.down, from.object("down"), 0, hidden, read.size, members);
    return read;
  }

  Experts readMoe(const ScriptObject& from) const {
    const int count = from.integer("count");
    Experts read;
    read.router = readRouter(from.object("router"), count);
    read.each = readMlp(from.object("each"), count);
    require(!read.each.gated, "experts with shares");
    read.scalesInput = from.flag("scalesInput");
    return read;
  }

  Router readRouter(const ScriptObject& from, int experts) const {
    Router read;
    read.experts = experts;
    read.used = from.integer("used");
    require(read.used > 0 && read.used <= experts, "more experts used than there are");
    join(read.linear, from.object("linear"), 0, experts, parts_.hiddenSize);
    read.isSigmoid = from.text("score") == "sigmoid";
    read.routingBias = from.floats("routingBias");
    require(read.routingBias.empty() || read.routingBias.size() == size_t(experts), "a choice bias of another size");
    if (const auto groups = from.maybe("groups")) {
      const ExpertGroups own{groups->integer("count"), groups->integer("used"), groups->text("by") == "best-two"};
      require(own.count > 0 && experts % own.count == 0, "groups of unequal size");
      require(own.used > 0 && own.used <= own.count && own.used * (experts / own.count) >= read.used,
              "groups with too few experts");
      read.groups = own;
    }
    read.normalized = from.flag("normalized");
    read.scale = from.number("scale");
    read.expertScales = from.floats("expertScales");
    require(read.expertScales.empty() || read.expertScales.size() == size_t(experts), "expert scales of another size");
    read.norm = maybeNorm(from, "norm", parts_.hiddenSize);
    return read;
  }

  const ScriptObject& model_;
  const std::vector<std::shared_ptr<Matrix>>& matrices_;
  ModelParts parts_;
};

}  // namespace

ModelParts readModel(napi_env env, napi_value model, const std::vector<std::shared_ptr<Matrix>>& matrices) {
  return ModelReader(ScriptObject(env, model), matrices).read();
}

std::vector<KvCache> readCaches(napi_env env, napi_value caches) {
  std::vector<KvCache> read;
  for (const ScriptObject& cache : ScriptObject(env, caches).elements()) read.push_back(readCache(cache));
  return read;
}

}  // namespace chairlift
