// See attention.h.

#include "layers/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "layers/registry.h"

namespace chairlift {

namespace {

// Histories of 1,537 tokens on are cut into parts where threads have few heads each, so that a late one holds up little. More rows, as
// of prompts, would want much memory for their states.
constexpr int fewestSharedSegments = 4, fewHeadsPerThread = 4, partsPerThread = 8, mostSharedRows = 32;

/** Consecutive heads of a row. */
struct Heads {
  int first, count;
  int end() const { return first + count; }
};

class AttentionRun {
 public:
  AttentionRun(const Attention& attention, Workspace& work)
      : attention_(attention),
        work_(work),
        rows_(work.batch.count()),
        stride_(attention.projectedStride()),
        projected_(work.projected.rows(size_t(rows_), stride_)),
        attendedStride_(paddedLength(attention.querySize())),
        attended_(work.attended.rows(size_t(rows_), attendedStride_)) {}

  void run(const InputRows& input, float* out) {
    work_.multiplier.apply(attention_.projection, input, rows_, projected_, stride_);
    const int parts = historyParts();
    if (parts > 1) attendInParts(parts);
    else attendByHead();
    work_.multiplier.apply(attention_.output, attendedRows(), rows_, out, work_.stream.stride);
  }

  void store(const InputRows& input) {
    work_.multiplier.apply(attention_.stored, input, rows_, projected_, stride_);
    work_.pool.forEachOne("rotate and store", rows_, [&](int row) { storeHeads(row, allKvHeads()); });
  }

 private:
  /** Every new row is stored before any is read: rows of one sequence see each other. */
  void placeAll() {
    work_.pool.forEachOne("rotate and store", rows_, [&](int row) { placeHeads(row, allKvHeads()); });
  }

  void attendByHead() {
    // Where the rows of a sequence are one group, the thread that attends to a KV head stores what is new of it.
    const bool placesByHead = work_.batch.hasGroupEach() && !normsAcrossHeads();
    if (!placesByHead) placeAll();
    const std::vector<RowGroup>& groups = work_.batch.groups();
    work_.pool.forEach("attention", int(groups.size()) * attention_.kvHeadCount, 1, [&](int begin, int end, int worker) {
      for (int piece = begin; piece < end; piece++) {
        const RowGroup& group = groups[size_t(piece / attention_.kvHeadCount)];
        const int kvHead = piece % attention_.kvHeadCount;
        for (int i = 0; placesByHead && i < group.rows; i++) placeHeads(group.firstRow + i, {kvHead, 1});
        work_.kernels.attend(work_.kv.type(), taskOf(group, kvHead, worker));
      }
    });
  }

  /** Those that a group's rows may see. */
  int segmentsOf(const RowGroup& group) const {
    const int end = std::max(work_.batch.end(group.sequence), work_.batch.imageEnd(group.firstRow));
    return (end - 1) / segmentTokens + 1;
  }

  /** Into how many parts each history is cut; 1 where it is not worth two more loops. */
  int historyParts() const {
    const std::vector<RowGroup>& groups = work_.batch.groups();
    const int pieces = int(groups.size()) * attention_.kvHeadCount, threads = work_.pool.used();
    if (threads == 1 || pieces == 0 || pieces >= fewHeadsPerThread * threads || rows_ > mostSharedRows) return 1;
    if (attention_.window > 0 || attention_.chunk > 0 || attention_.skipsFirst) return 1;
    int segments = 0;
    for (const RowGroup& group : groups) segments = std::max(segments, segmentsOf(group));
    if (segments < fewestSharedSegments) return 1;
    return std::min(segments, (partsPerThread * threads + pieces - 1) / pieces);
  }

  void attendInParts(int parts) {
    placeAll();
    const std::vector<RowGroup>& groups = work_.batch.groups();
    const int heads = attention_.kvHeadCount, pieces = int(groups.size()) * heads;
    const size_t floatsOfRow = size_t(attention_.headCount / heads) * attentionStateFloats(attention_.headSize);
    // Where the states of each group begin.
    std::vector<size_t> begins{0};
    for (const RowGroup& group : groups) {
      begins.push_back(begins.back() + size_t(heads) * size_t(segmentsOf(group)) * size_t(group.rows) * floatsOfRow);
    }
    if (work_.attentionStates.size() < begins.back()) work_.attentionStates.resize(begins.back());
    const auto taskAt = [&](int piece, int worker) {
      const size_t group = size_t(piece / heads), head = size_t(piece % heads);
      AttentionTask task = taskOf(groups[group], int(head), worker);
      task.states = work_.attentionStates.data() + begins[group] + (begins[group + 1] - begins[group]) / size_t(heads) * head;
      return task;
    };
    work_.pool.forEach("attention", pieces * parts, 1, [&](int begin, int end, int worker) {
      for (int i = begin; i < end; i++) {
        const int piece = i / parts, part = i % parts, segments = segmentsOf(groups[size_t(piece / heads)]);
        AttentionTask task = taskAt(piece, worker);
        task.firstSegment = segments * part / parts;
        task.endSegment = segments * (part + 1) / parts;
        if (task.firstSegment < task.endSegment) work_.kernels.attend(work_.kv.type(), task);
      }
    });
    work_.pool.forEach("join attention", pieces, 1, [&](int begin, int end, int worker) {
      for (int piece = begin; piece < end; piece++) {
        AttentionTask task = taskAt(piece, worker);
        task.joins = true;
        work_.kernels.attend(work_.kv.type(), task);
      }
    });
  }

  float* projectedRow(int row) const { return projected_ + size_t(row) * stride_; }

  InputRows attendedRows() const {
    if (!attention_.hasGate) return {attended_, attendedStride_, attention_.querySize()};
    InputRows rows{projected_ + attention_.gateAt(), stride_, attention_.querySize()};
    rows.form = InputForm::Gated;
    rows.curve.kind = Activation::Sigmoid;
    rows.up = attended_;
    rows.upStride = attendedStride_;
    return rows;
  }

  bool normsAcrossHeads() const {
    const auto isOverAll = [](const std::optional<HeadNorm>& norm) { return norm && norm->over == HeadNorm::Over::All; };
    return isOverAll(attention_.queryNorm) || isOverAll(attention_.keyNorm) || isOverAll(attention_.valueNorm);
  }

  Heads allKvHeads() const { return {0, attention_.kvHeadCount}; }

  /** Of some KV heads and their queries: normalizes and rotates a row's queries and keys, and stores its keys and values. */
  void placeHeads(int row, Heads kvHeads) {
    const int queryHeads = attention_.headCount / attention_.kvHeadCount;
    const Heads asked{kvHeads.first * queryHeads, kvHeads.count * queryHeads};
    float* const queries = projectedRow(row);
    place(queries, asked, attention_.queryNorm, row);
    if (attention_.growth) grow(queries, asked, work_.batch.position(row));
    if (attention_.stores) storeHeads(row, kvHeads);
  }

  void storeHeads(int row, Heads stored) {
    float* const keys = projectedRow(row) + attention_.keysAt();
    float* const values = projectedRow(row) + attention_.valuesAt();
    if (!attention_.hasValues) memcpy(values + at(stored.first), keys + at(stored.first), size_t(at(stored.count)) * sizeof(float));
    normalize(values, stored, attention_.valueNorm);
    place(keys, stored, attention_.keyNorm, row);
    const int block = work_.batch.block(row), token = work_.batch.position(row) % blockTokens;
    for (int head = stored.first; head < stored.end(); head++) {
      work_.kernels.storeKv(work_.kv.type(), keys + at(head), values + at(head), attention_.headSize, token,
                            work_.kv.at(block, attention_.cache, head));
    }
  }

  int at(int head) const { return head * attention_.headSize; }

  void place(float* row, Heads heads, const std::optional<HeadNorm>& norm, int number) const {
    if (!attention_.normsAfterRope) normalize(row, heads, norm);
    if (attention_.rope) rotate(row, heads, number);
    if (attention_.normsAfterRope) normalize(row, heads, norm);
  }

  void normalize(float* row, Heads heads, const std::optional<HeadNorm>& norm) const {
    if (!norm) return;
    const bool overAll = norm->over == HeadNorm::Over::All, ownWeights = norm->over == HeadNorm::Over::Each;
    const int run = overAll ? at(heads.count) : attention_.headSize;
    for (int i = at(heads.first); i < at(heads.end()); i += run) {
      norm->norm.apply(work_.kernels, row + i, run, work_.normEpsilon, ownWeights ? i : 0);
    }
  }

  void rotate(float* row, Heads heads, int number) const {
    const Rotation by = work_.batch.rotation(*attention_.rope, number);
    for (int head = heads.first; head < heads.end(); head++) {
      work_.kernels.rotate(row + at(head), by.cosines, by.sines, by.pairs);
    }
  }

  void grow(float* queries, Heads heads, int position) const {
    const QueryGrowth& growth = *attention_.growth;
    const double lengths = std::floor((double(position) + growth.shift) / growth.length);
    const float factor = float(1 + growth.weight * std::log1p(lengths));
    for (int i = at(heads.first); i < at(heads.end()); i++) queries[i] *= factor;
  }

  /** A group of rows over one KV head. */
  AttentionTask taskOf(const RowGroup& group, int kvHead, int worker) const {
    const int queryHeads = attention_.headCount / attention_.kvHeadCount, firstHead = kvHead * queryHeads;
    const size_t headAt = size_t(firstHead) * size_t(attention_.headSize);
    AttentionTask task;
    task.queries = projectedRow(group.firstRow) + headAt;
    task.outputs = attended_ + size_t(group.firstRow) * attendedStride_ + headAt;
    task.rows = group.rows;
    task.queryHeads = queryHeads;
    task.queryStride = stride_;
    task.outputStride = attendedStride_;
    task.position = work_.batch.position(group.firstRow);
    task.headSize = attention_.headSize;
    task.valuesInKeys = 0;
    task.textEnd = attention_.bidirectional ? work_.batch.end(group.sequence) : 0;
    task.imageEnd = attention_.imagesBothWays ? work_.batch.imageEnd(group.firstRow) : 0;
    // The one row of its sequence.
    task.window = attention_.skipsFirst ? task.position : attention_.window;
    task.chunk = attention_.chunk;
    task.scale = attention_.scale;
    task.softcap = attention_.softcap;
    task.sinks = attention_.sinks.empty() ? nullptr : &attention_.sinks[size_t(firstHead)];
    task.blocks = work_.batch.table(group.sequence);
    task.base = work_.kv.at(0, attention_.cache, kvHead);
    task.blockStride = work_.kv.stride();
    task.scratch = work_.attentionScratch[size_t(worker)].data();
    return task;
  }

  const Attention& attention_;
  Workspace& work_;
  const int rows_;
  const size_t stride_;
  float* const projected_;
  const size_t attendedStride_;
  float* const attended_;
};

std::optional<HeadNorm> maybeHeadNorm(const Record& from, const char* name, int headSize, int heads) {
  const Record* norm = from.maybe(name);
  if (!norm) return std::nullopt;
  const std::string& text = norm->text("over");
  const HeadNorm::Over over = text == "all"    ? HeadNorm::Over::All
                              : text == "each" ? HeadNorm::Over::Each
                                               : HeadNorm::Over::Head;
  return HeadNorm{readNorm(norm->object("norm"), over == HeadNorm::Over::Head ? headSize : headSize * heads), over};
}

}  // namespace

void Attention::run(const InputRows& input, Workspace& work, float* out) const { AttentionRun(*this, work).run(input, out); }

void Attention::store(const InputRows& input, Workspace& work) const { AttentionRun(*this, work).store(input); }

std::unique_ptr<Body> readAttention(const Record& from, Reader& reader) {
  const int hidden = reader.model.hiddenSize;
  auto read = std::make_unique<Attention>();
  Attention& body = *read;
  body.headCount = from.integer("headCount");
  body.headSize = from.integer("headSize");
  body.cache = from.integer("cache");
  const KvCache& cache = reader.cache(body.cache);
  body.kvHeadCount = cache.headCount;
  require(body.headSize == cache.headSize && cache.valuesInKeys == 0 && body.headCount > 0 &&
              body.headCount % cache.headCount == 0,
          "heads that do not fit those of their cache");
  body.skipsFirst = from.flag("skipsFirst");
  // That of a head may read two rows side by side.
  const int seen = body.skipsFirst ? reader.inputsOf(from.object("query").integer("matrix")) : hidden;
  require(seen == hidden || seen == 2 * hidden, "attention that reads neither states nor embeddings with states");
  const Record* stored = from.maybe("stored");
  body.stores = stored;
  body.hasValues = stored && stored->has("value");
  body.hasGate = from.has("gate");
  reader.join(body.projection, from.object("query"), 0, body.querySize(), seen);
  if (stored) reader.join(body.projection, stored->object("key"), body.keysAt(), body.kvSize(), seen);
  if (body.hasValues) reader.join(body.projection, stored->object("value"), body.valuesAt(), body.kvSize(), seen);
  body.stored.name = body.projection.name;
  for (const Linear::Part& part : body.projection.parts) {
    if (part.offset >= body.keysAt()) body.stored.parts.push_back(part);
  }
  if (body.hasGate) reader.join(body.projection, from.object("gate"), body.gateAt(), body.querySize(), seen);
  body.output = reader.linear(from.object("output"), hidden, body.querySize());
  body.queryNorm = maybeHeadNorm(from, "queryNorm", body.headSize, body.headCount);
  if (stored) {
    body.keyNorm = maybeHeadNorm(*stored, "keyNorm", body.headSize, body.kvHeadCount);
    body.valueNorm = maybeHeadNorm(*stored, "valueNorm", body.headSize, body.kvHeadCount);
  }
  body.normsAfterRope = from.flag("normsAfterRope");
  if (from.has("rope")) {
    body.rope = from.integer("rope");
    reader.checkRope(*body.rope, body.headSize);
  }
  body.bidirectional = from.flag("bidirectional");
  body.imagesBothWays = from.flag("imagesBothWays");
  body.window = from.integer("window", 0);
  body.chunk = from.integer("chunk", 0);
  require(!body.skipsFirst || (body.window == 0 && body.chunk == 0), "an MTP head that sees a part of its text");
  body.scale = float(from.number("scale"));
  body.softcap = float(from.number("softcap", 0));
  body.sinks = from.maybeFloats("sinks", size_t(body.headCount));
  if (const Record* growth = from.maybe("growth")) {
    body.growth = {growth->number("weight"), growth->number("length"), growth->number("shift")};
  }
  return read;
}

}  // namespace chairlift
