// See view-attention.h.

#include "tower/view-attention.h"

#include <algorithm>
#include <cstring>

namespace chairlift {

namespace {

size_t blockBytes(const GridAttention& attention) {
  return size_t(attention.headCount) * headBlockBytes(KvType::F32, attention.headSize, false);
}

}  // namespace

void ViewAttention::project(const GridAttention& attention, const TokenGroups& groups, const float* rotations, float epsilon,
                            const InputRows& input, int first, int count) {
  const int width = attention.width();
  maps_.apply(attention.query, input, count, roomFor(ownQueries_, count, width));
  maps_.apply(attention.key, input, count, roomFor(ownKeys_, count, width));
  maps_.apply(attention.value, input, count, roomFor(ownValues_, count, width));
  roomFor(queries_, int(groups.order.size()), width);
  keysAndValues_.rows(size_t(groups.blockCount), blockBytes(attention) / sizeof(float));
  const size_t turns = 2 * attention.pairs.size();
  maps_.pool.forEach("store keys and values", count, 4, [&](int begin, int end, int) {
    for (int i = begin; i < end; i++) {
      placeRow(attention, groups, rotations ? rotations + size_t(first + i) * turns : nullptr, epsilon, first + i, i);
    }
  });
}

void ViewAttention::placeRow(const GridAttention& attention, const TokenGroups& groups, const float* turns, float epsilon,
                             int row, int projected) {
  const size_t stride = paddedLength(attention.width()), own = size_t(projected) * stride;
  float* const queries = ownQueries_.data() + own;
  float* const keys = ownKeys_.data() + own;
  float* const values = ownValues_.data() + own;
  place(attention, queries, attention.queryNorm, turns, epsilon);
  place(attention, keys, attention.keyNorm, turns, epsilon);
  place(attention, values, attention.valueNorm, nullptr, epsilon);
  const int at = groups.places[size_t(row)], group = groups.groups[size_t(row)];
  const int inGroup = at - groups.starts[size_t(group)];
  std::copy_n(queries, attention.width(), queries_.data() + size_t(at) * stride);
  const size_t block = size_t(groups.firstBlocks[size_t(group)] + inGroup / blockTokens);
  uint8_t* const begin = (uint8_t*)keysAndValues_.data() + block * blockBytes(attention);
  const size_t headBytes = headBlockBytes(KvType::F32, attention.headSize, false);
  for (int head = 0; head < attention.headCount; head++) {
    const int from = head * attention.headSize;
    maps_.kernels.storeKv(KvType::F32, keys + from, values + from, attention.headSize, inGroup % blockTokens,
                          begin + size_t(head) * headBytes);
  }
}

/** Normalises and turns the heads of a row. */
void ViewAttention::place(const GridAttention& attention, float* heads, const std::optional<SizedNorm>& norm,
                          const float* turns, float epsilon) const {
  if (norm) {
    for (int at = 0; at < attention.width(); at += norm->size) {
      norm->norm.apply(maps_.kernels, heads + at, norm->size, epsilon);
    }
  }
  if (!turns) return;
  const size_t pairs = attention.pairs.size();
  for (int head = 0; head < attention.headCount; head++) {
    float* const own = heads + head * attention.headSize;
    for (size_t i = 0; i < pairs; i++) {
      const auto [first, second] = attention.pairs[i];
      const float a = own[first], b = own[second], cosine = turns[i], sine = turns[pairs + i];
      own[first] = a * cosine - b * sine;
      own[second] = b * cosine + a * sine;
    }
  }
}

void ViewAttention::attend(const GridAttention& attention, const TokenGroups& groups, int first, int count,
                           const RowView& to) {
  cutQueries(groups, first, count);
  while (int(blocks_.size()) < groups.blockCount) blocks_.push_back(int32_t(blocks_.size()));
  scratch_.resize(size_t(maps_.pool.threads()));
  const RowView attended = roomFor(attended_, count, attention.width());
  // Neighbours are queries of one head: they share its keys and values.
  const int pieces = int(pieces_.size());
  maps_.pool.forEach("attention", pieces * attention.headCount, 1, [&](int begin, int end, int worker) {
    for (int i = begin; i < end; i++) {
      attendHead(attention, groups, pieces_[size_t(i % pieces)], i / pieces, first, worker);
    }
  });
  maps_.apply(attention.output, {attended.x, attended.stride, attended.size}, count, to);
}

void ViewAttention::cutQueries(const TokenGroups& groups, int first, int count) {
  pieces_.clear();
  for (int place = first; place < first + count;) {
    const int group = groups.groups[size_t(groups.order[size_t(place)])];
    const int end = std::min({groups.starts[size_t(group) + 1], first + count, place + attentionQueries});
    pieces_.push_back({group, place, end - place});
    place = end;
  }
}

void ViewAttention::attendHead(const GridAttention& attention, const TokenGroups& groups, const Queries& queries, int head,
                               int first, int worker) {
  const size_t stride = paddedLength(attention.width()), headAt = size_t(head) * size_t(attention.headSize);
  std::vector<float>& scratch = scratch_[size_t(worker)];
  scratch.resize(std::max(scratch.size(), attentionScratchFloats(attention.headSize)));
  AttentionTask task{};
  task.queries = queries_.data() + size_t(queries.firstPlace) * stride + headAt;
  task.outputs = attended_.data() + size_t(queries.firstPlace - first) * stride + headAt;
  task.rows = queries.count;
  task.queryHeads = 1;
  task.queryStride = task.outputStride = stride;
  task.headSize = attention.headSize;
  // Each sees all of its group, wherever it stands.
  task.textEnd = groups.starts[size_t(queries.group) + 1] - groups.starts[size_t(queries.group)];
  task.scale = attention.scale;
  task.blocks = &blocks_[size_t(groups.firstBlocks[size_t(queries.group)])];
  task.base = (const uint8_t*)keysAndValues_.data() + size_t(head) * headBlockBytes(KvType::F32, attention.headSize, false);
  task.blockStride = blockBytes(attention);
  task.scratch = scratch.data();
  maps_.kernels.attend(KvType::F32, task);
}

}  // namespace chairlift
