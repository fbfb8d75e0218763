// See mla.h. Maps of single heads are members of one matrix: they take rows ordered by head, and their results are copied back to
// the order of rows.

#include "layers/mla.h"

#include <algorithm>
#include <cstring>

#include "layers/registry.h"

namespace chairlift {

namespace {

// Heads of one task: as many queries as kernels take together.
constexpr int headsPerPiece = attentionTile;

class MlaRun {
 public:
  MlaRun(const Mla& attention, Workspace& work)
      : attention_(attention),
        work_(work),
        rows_(work.batch.count()),
        heads_(attention.headCount),
        keySize_(size_t(attention.keySize())),
        stride_(attention.projectedStride()),
        projected_(work.projected.rows(size_t(rows_), stride_)) {
    for (int head = 0; head < heads_; head++) runs_.push_back({head, head * rows_, rows_});
  }

  void run(const InputRows& input, float* out) {
    work_.multiplier.apply(attention_.projection, input, rows_, projected_, stride_);
    // Every new row is stored before any is read: rows of one sequence see each other.
    work_.pool.forEachOne("store keys", rows_, [&](int row) {
      storeRow(row);
      normalizeQueryInput(row);
    });
    makeQueries(input);
    attendAll();
    work_.multiplier.apply(attention_.output, makeValues(), rows_, out, work_.stream.stride);
  }

  void store(const InputRows& input) {
    work_.multiplier.apply(attention_.stored, input, rows_, projected_, stride_);
    work_.pool.forEachOne("store keys", rows_, [&](int row) { storeRow(row); });
  }

 private:
  float* projectedRow(int row) const { return projected_ + size_t(row) * stride_; }

  void storeRow(int row) {
    float* const key = projectedRow(row);
    attention_.kvNorm.apply(work_.kernels, key, attention_.kvLoraRank, work_.normEpsilon);
    rotate(key + attention_.kvLoraRank, row);
    const int block = work_.batch.block(row), token = work_.batch.position(row) % blockTokens;
    work_.kernels.storeKv(work_.kv.type(), key, nullptr, attention_.keySize(), token,
                          work_.kv.at(block, attention_.cache, 0));
  }

  void normalizeQueryInput(int row) const {
    if (!attention_.queryInputNorm) return;
    attention_.queryInputNorm->apply(work_.kernels, projectedRow(row) + attention_.queryInputAt(),
                                     attention_.queryInputSize, work_.normEpsilon);
  }

  void rotate(float* values, int row) const {
    const Rotation by = work_.batch.rotation(attention_.rope, row);
    work_.kernels.rotate(values, by.cosines, by.sines, by.pairs);
  }

  void makeQueries(const InputRows& input) {
    const size_t contents = attention_.queryContents(), stride = contents * size_t(attention_.qkNopeHeadDim);
    float* const asked = work_.inner.rows(size_t(rows_) + 1, stride);
    const InputRows seen =
        attention_.queryInputNorm
            ? InputRows{projected_ + attention_.queryInputAt(), stride_, attention_.queryInputSize}
            : input;
    work_.multiplier.apply(attention_.query, seen, rows_, asked, stride);
    const float* const compressed = applyByHead(attention_.keyUp, asked, attention_.qkNopeHeadDim, contents,
                                             attention_.kvLoraRank);
    queries_ = work_.scores.rows(size_t(rows_), size_t(heads_) * keySize_);
    work_.pool.forEachOne("make queries", rows_, [&](int row) {
      const float* const turning = asked + size_t(row) * stride + attention_.queryRotatedAt();
      for (int head = 0; head < heads_; head++) {
        float* const query = queryOf(row, head);
        copyHead(query, compressed, row, head, attention_.kvLoraRank);
        memcpy(query + attention_.kvLoraRank, turning + head * attention_.qkRopeHeadDim,
               size_t(attention_.qkRopeHeadDim) * sizeof(float));
        rotate(query + attention_.kvLoraRank, row);
      }
    });
  }

  /** Rows of the step are `every` heads apart in `heads`. The result is ordered by head. */
  const float* applyByHead(const Linear& linear, float* heads, int size, size_t every, int outputs) {
    places_.resize(size_t(heads_) * size_t(rows_));
    for (int head = 0; head < heads_; head++) {
      for (int row = 0; row < rows_; row++) {
        places_[size_t(head) * size_t(rows_) + size_t(row)] = int32_t(size_t(row) * every) + head;
      }
    }
    InputRows input{heads, size_t(size), size};
    input.places = places_.data();
    float* const made = work_.gathered.rows(places_.size(), size_t(outputs));
    work_.multiplier.apply(linear, input, runs_, made, size_t(outputs));
    return made;
  }

  void copyHead(float* to, const float* made, int row, int head, int size) const {
    const size_t at = size_t(head) * size_t(rows_) + size_t(row);
    memcpy(to, made + at * size_t(size), size_t(size) * sizeof(float));
  }

  float* queryOf(int row, int head) const { return queries_ + size_t(row * heads_ + head) * keySize_; }

  void attendAll() {
    attended_ = work_.attended.rows(size_t(rows_) + 1, attendedStride());
    const std::vector<RowGroup>& groups = work_.batch.groups();
    const int pieces = (heads_ + headsPerPiece - 1) / headsPerPiece;
    work_.pool.forEach("attention", int(groups.size()) * pieces, 1, [&](int begin, int end, int worker) {
      for (int piece = begin; piece < end; piece++) {
        attend(groups[size_t(piece / pieces)], piece % pieces * headsPerPiece, worker);
      }
    });
  }

  size_t attendedStride() const { return size_t(heads_) * size_t(attention_.kvLoraRank); }

  /** A group of rows over some heads: all see the same keys. */
  void attend(const RowGroup& group, int firstHead, int worker) {
    AttentionTask task{};
    task.queries = queryOf(group.firstRow, firstHead);
    task.outputs = attended_ + size_t(group.firstRow) * attendedStride() + size_t(firstHead) * size_t(attention_.kvLoraRank);
    task.rows = group.rows;
    task.queryHeads = std::min(headsPerPiece, heads_ - firstHead);
    task.queryStride = size_t(heads_) * keySize_;
    task.outputStride = attendedStride();
    task.position = work_.batch.position(group.firstRow);
    task.headSize = attention_.keySize();
    task.valuesInKeys = attention_.kvLoraRank;
    // The one row of its sequence.
    task.window = attention_.skipsFirst ? task.position : 0;
    task.scale = attention_.scale;
    task.blocks = work_.batch.table(group.sequence);
    task.base = work_.kv.at(0, attention_.cache, 0);
    task.blockStride = work_.kv.stride();
    task.scratch = work_.attentionScratch[size_t(worker)].data();
    work_.kernels.attend(work_.kv.type(), task);
  }

  InputRows makeValues() {
    const int size = attention_.vHeadDim, count = heads_ * size;
    const float* const made =
        applyByHead(attention_.valueUp, attended_, attention_.kvLoraRank, size_t(heads_), size);
    const size_t stride = paddedLength(count);
    float* const values = work_.inner.rows(size_t(rows_), stride);
    work_.pool.forEachOne("gather values", rows_, [&](int row) {
      for (int head = 0; head < heads_; head++) {
        copyHead(values + size_t(row) * stride + size_t(head) * size_t(size), made, row, head, size);
      }
    });
    return {values, stride, count};
  }

  const Mla& attention_;
  Workspace& work_;
  const int rows_, heads_;
  const size_t keySize_, stride_;
  float* const projected_;
  // One for each head, over all rows.
  std::vector<RowRun> runs_;
  std::vector<int32_t> places_;
  float* queries_ = nullptr;
  float* attended_ = nullptr;
};

}  // namespace

void Mla::run(const InputRows& input, Workspace& work, float* out) const { MlaRun(*this, work).run(input, out); }

void Mla::store(const InputRows& input, Workspace& work) const { MlaRun(*this, work).store(input); }

std::unique_ptr<Body> readMla(const Record& from, Reader& reader) {
  const int hidden = reader.model.hiddenSize;
  auto read = std::make_unique<Mla>();
  Mla& body = *read;
  body.headCount = from.integer("headCount");
  body.cache = from.integer("cache");
  body.kvLoraRank = from.integer("kvLoraRank");
  body.qkNopeHeadDim = from.integer("qkNopeHeadDim");
  body.qkRopeHeadDim = from.integer("qkRopeHeadDim");
  body.vHeadDim = from.integer("vHeadDim");
  const int heads = body.headCount;
  require(heads > 0 && body.kvLoraRank > 0 && body.qkNopeHeadDim > 0 && body.qkRopeHeadDim > 0 && body.vHeadDim > 0,
          "MLA without heads, a rank or values of a head");
  const KvCache& cache = reader.cache(body.cache);
  require(cache.headCount == 1 && cache.headSize == body.keySize() && cache.valuesInKeys == body.kvLoraRank,
          "MLA that does not fit its cache");
  reader.join(body.projection, from.object("kvDown"), 0, body.kvLoraRank, hidden);
  reader.join(body.projection, from.object("keyRope"), size_t(body.kvLoraRank), body.qkRopeHeadDim, hidden);
  body.stored = body.projection;
  body.kvNorm = readNorm(from.object("kvNorm"), body.kvLoraRank);
  if (const Record* queryInput = from.maybe("queryInput")) {
    body.queryInputSize = reader.outputsOf(queryInput->object("down"));
    reader.join(body.projection, queryInput->object("down"), body.queryInputAt(), body.queryInputSize, hidden);
    body.queryInputNorm = readNorm(queryInput->object("norm"), body.queryInputSize);
  }
  const int seen = body.queryInputNorm ? body.queryInputSize : hidden;
  reader.join(body.query, from.object("query"), 0, heads * body.qkNopeHeadDim, seen);
  reader.join(body.query, from.object("queryRope"), body.queryRotatedAt(), heads * body.qkRopeHeadDim, seen);
  body.keyUp = reader.linear(from.object("keyUp"), body.kvLoraRank, body.qkNopeHeadDim, heads);
  body.valueUp = reader.linear(from.object("valueUp"), body.vHeadDim, body.kvLoraRank, heads);
  body.output = reader.linear(from.object("output"), hidden, heads * body.vHeadDim);
  body.rope = from.integer("rope");
  reader.checkRope(body.rope, body.qkRopeHeadDim);
  body.scale = float(from.number("scale"));
  body.skipsFirst = from.flag("skipsFirst");
  return read;
}

}  // namespace chairlift
