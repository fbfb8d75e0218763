// See view-attention.h.

#include "cuda/tower/view-attention.h"

#include <algorithm>

namespace chairlift {
namespace cuda {

namespace {

size_t headBytes(const GridAttention& attention) { return headBlockBytes(KvType::F32, attention.headSize, false); }

size_t blockBytes(const GridAttention& attention) { return size_t(attention.headCount) * headBytes(attention); }

const GridAttention& attentionOf(const Tower& tower, const TowerOperation& operation) {
  return std::get<GridAttention>(tower.steps[size_t(operation.step)].branches[size_t(operation.branch)].body);
}

/** Places of the order from `first` on by their groups; rows are counted from there. */
std::vector<SequenceRows> cutGroups(const TokenGroups& groups, int first, int count) {
  std::vector<SequenceRows> cut;
  for (int place = first; place < first + count;) {
    const size_t group = size_t(groups.groups[size_t(groups.order[size_t(place)])]);
    const int start = groups.starts[group], end = groups.starts[group + 1], next = std::min(end, first + count);
    cut.push_back({place - first, next - place, place - start, groups.firstBlocks[group], end - start});
    place = next;
  }
  return cut;
}

}  // namespace

ViewAttention::ViewAttention(CudaTower& tower, ViewMaps& maps, const ViewLists& lists, const TowerProgram& program)
    : tower_(tower), maps_(maps), lists_(lists), program_(program) {
  size_t queryBytes = 0, kvBytes = 0;
  for (const TowerOperation& operation : program.operations) {
    if (operation.kind != TowerOperation::Kind::Project) continue;
    const GridAttention& attention = attentionOf(tower.tower(), operation);
    const TokenGroups& groups = program.groups[size_t(operation.groups)];
    queryBytes = std::max(queryBytes, groups.order.size() * paddedLength(attention.width()) * sizeof(float));
    kvBytes = std::max(kvBytes, size_t(groups.blockCount) * blockBytes(attention));
  }
  if (kvBytes == 0) return;
  queries_ = DeviceMemory(tower.device(), queryBytes);
  keysAndValues_ = DeviceMemory(tower.device(), kvBytes);
  // Tokens that pad a group's last block, and values that pad a token.
  tower.device().clear(keysAndValues_.as<uint8_t>(), kvBytes);
}

void ViewAttention::project(const GridAttention& attention, const TowerOperation& operation, float epsilon, const Input& input,
                            int first, int count) {
  const int width = attention.width();
  const size_t stride = paddedLength(width);
  const DeviceRows projected = maps_.room("projected", count, int(3 * stride));
  if (const Linear* all = tower_.joined(attention)) {
    maps_.work->multiplier.apply(*all, input, count, projected.x, projected.stride);
  } else {
    const TowerLinear* const maps[3] = {&attention.query, &attention.key, &attention.value};
    for (size_t i = 0; i < 3; i++) maps_.apply(*maps[i], input, count, {projected.x + i * stride, projected.stride, width});
  }
  PlaceViewArgs args{};
  args.projected = projected.x;
  args.projectedStride = int64_t(projected.stride);
  const std::optional<SizedNorm>* const norms[3] = {&attention.queryNorm, &attention.keyNorm, &attention.valueNorm};
  for (size_t i = 0; i < 3; i++) {
    args.at[i] = int64_t(i * stride);
    args.norms[i] = maps_.norm(*norms[i], epsilon);
    args.normSizes[i] = *norms[i] ? (*norms[i])->size : 0;
  }
  args.headCount = attention.headCount;
  args.headSize = attention.headSize;
  args.pairCount = int32_t(attention.pairs.size());
  args.pairs = tower_.pairs(attention);
  const float* const rotation = args.pairs ? lists_.rotation(operation.rotation) : nullptr;
  if (rotation) args.rotations = rotation + size_t(first) * 2 * attention.pairs.size();
  const ViewLists::Groups groups = lists_.groups(operation.groups);
  args.places = groups.places + first;
  args.tokens = groups.tokens + first;
  args.queries = queries_.as<float>();
  args.queryStride = int64_t(stride);
  args.kv = keysAndValues_.as<float>();
  args.blockFloats = int64_t(blockBytes(attention) / sizeof(float));
  maps_.work->device.launch("place_view", {count, 1, 256, (size_t(width) + 64) * sizeof(float)}, args);
}

void ViewAttention::attend(const GridAttention& attention, const TowerOperation& operation, int first, int count,
                           const DeviceRows& to) {
  const DeviceRows attended = maps_.room("attended", count, attention.width());
  AttentionArgs args{};
  args.queryStride = args.outputStride = int64_t(attended.stride);
  args.queries = queries_.as<float>() + size_t(first) * attended.stride;
  args.outputs = attended.x;
  args.headCount = args.kvHeadCount = attention.headCount;
  args.headSize = attention.headSize;
  // Each sees all of its group, wherever it stands.
  args.view = {0, 0, true};
  args.scale = attention.scale;
  args.tables = lists_.blocks();
  args.kv = keysAndValues_.as<uint8_t>();
  args.blockStride = int64_t(blockBytes(attention));
  args.headBytes = int64_t(headBytes(attention));
  args.kvType = int32_t(KvType::F32);
  Work& work = *maps_.work;
  StepSequences sequences;
  sequences.of[size_t(RowsOf::All)] = cutGroups(program_.groups[size_t(operation.groups)], first, count);
  work.attention.beginStep(work, std::move(sequences), nullptr);
  work.attention.launch(work, args);
  maps_.apply(attention.output, {attended.x, attended.stride, attended.size}, count, to);
}

}  // namespace cuda
}  // namespace chairlift
