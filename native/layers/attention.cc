// See attention.h.

#include "layers/attention.h"

#include <cmath>
#include <cstring>

namespace chairlift {

namespace {

/** One attention over the rows of a step. */
class AttentionRun {
 public:
  AttentionRun(const Attention& attention, const std::vector<Rope>& ropes, Workspace& work)
      : attention_(attention),
        ropes_(ropes),
        work_(work),
        rows_(work.batch.count()),
        stride_(attention.projectedStride()),
        projected_(work.projected.rows(size_t(rows_), stride_)),
        attendedStride_(paddedLength(attention.querySize())),
        attended_(work.attended.rows(size_t(rows_), attendedStride_)) {}

  void run(const InputRows& input, float* out) {
    work_.multiplier.apply(attention_.projection, input, rows_, projected_, stride_);
    // Every new row is stored before any is read: rows of one sequence see each other.
    work_.pool.forEachOne(rows_, [&](int row) { placeRow(row); });
    const std::vector<RowGroup>& groups = work_.batch.groups();
    work_.pool.forEach(int(groups.size()) * attention_.kvHeadCount, 1, [&](int begin, int end, int worker) {
      for (int piece = begin; piece < end; piece++) {
        attend(groups[size_t(piece / attention_.kvHeadCount)], piece % attention_.kvHeadCount, worker);
      }
    });
    work_.multiplier.apply(attention_.output, attendedRows(), rows_, out, work_.stream.stride);
  }

 private:
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

  /** Brings a row's queries and keys to their place among positions, and stores its keys and values. */
  void placeRow(int row) {
    float* queries = projectedRow(row);
    place(queries, attention_.headCount, attention_.queryNorm, row);
    if (attention_.growth) grow(queries, work_.batch.position(row));
    if (!attention_.stores) return;
    float* keys = queries + attention_.keysAt();
    float* values = queries + attention_.valuesAt();
    if (!attention_.hasValues) memcpy(values, keys, size_t(attention_.kvSize()) * sizeof(float));
    normalize(values, attention_.kvHeadCount, attention_.valueNorm);
    place(keys, attention_.kvHeadCount, attention_.keyNorm, row);
    const int block = work_.batch.block(row), token = work_.batch.position(row) % blockTokens;
    for (int head = 0; head < attention_.kvHeadCount; head++) {
      const int at = head * attention_.headSize;
      work_.kernels.storeKv(work_.kv.type(), keys + at, values + at, attention_.headSize, token,
                            work_.kv.at(block, attention_.cache, head));
    }
  }

  void place(float* heads, int count, const std::optional<HeadNorm>& norm, int row) const {
    if (!attention_.normsAfterRope) normalize(heads, count, norm);
    if (attention_.rope) rotate(heads, count, row);
    if (attention_.normsAfterRope) normalize(heads, count, norm);
  }

  void normalize(float* heads, int count, const std::optional<HeadNorm>& norm) const {
    if (!norm) return;
    const bool overAll = norm->over == HeadNorm::Over::All, ownWeights = norm->over == HeadNorm::Over::Each;
    const int total = count * attention_.headSize, run = overAll ? total : attention_.headSize;
    for (int at = 0; at < total; at += run) {
      norm->norm.apply(work_.kernels, heads + at, run, work_.normEpsilon, ownWeights ? at : 0);
    }
  }

  void rotate(float* heads, int count, int row) const {
    const size_t pairs = ropes_[size_t(*attention_.rope)].pairs();
    const float* cosines = work_.batch.rotation(*attention_.rope, row);
    for (int head = 0; head < count; head++) {
      work_.kernels.rotate(heads + head * attention_.headSize, cosines, cosines + pairs, int(pairs));
    }
  }

  void grow(float* queries, int position) const {
    const QueryGrowth& growth = *attention_.growth;
    const double lengths = std::floor((double(position) + growth.shift) / growth.length);
    const float factor = float(1 + growth.weight * std::log1p(lengths));
    for (int i = 0; i < attention_.querySize(); i++) queries[i] *= factor;
  }

  /** Some rows of one sequence, one KV head. */
  void attend(const RowGroup& group, int kvHead, int worker) {
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
    task.window = attention_.window;
    task.chunk = attention_.chunk;
    task.scale = attention_.scale;
    task.softcap = attention_.softcap;
    task.sinks = attention_.sinks.empty() ? nullptr : &attention_.sinks[size_t(firstHead)];
    task.blocks = work_.batch.table(group.sequence);
    task.base = work_.kv.at(0, attention_.cache, kvHead);
    task.blockStride = work_.kv.stride();
    task.scratch = work_.attentionScratch[size_t(worker)].data();
    work_.kernels.attend(work_.kv.type(), task);
  }

  const Attention& attention_;
  const std::vector<Rope>& ropes_;
  Workspace& work_;
  const int rows_;
  const size_t stride_;
  float* const projected_;
  const size_t attendedStride_;
  float* const attended_;
};

}  // namespace

void runAttention(const Attention& attention, const InputRows& input, const std::vector<Rope>& ropes, Workspace& work,
                  float* out) {
  AttentionRun(attention, ropes, work).run(input, out);
}

}  // namespace chairlift
