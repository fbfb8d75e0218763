// See work.h.

#include "cuda/work.h"

#include <algorithm>

namespace chairlift {
namespace cuda {

DeviceMemory& Growing::room(Work& work, size_t bytes) {
  if (memory_.bytes() < bytes) {
    // The old is released first: both at once may not fit.
    memory_ = DeviceMemory();
    memory_ = DeviceMemory(work.device, bytes);
    work.device.clear(memory_.as<uint8_t>(), bytes);
    work.generation++;
  }
  return memory_;
}

void Work::measureStream() {
  if (!stream.scales[0] && !stream.scales[1]) return;
  MeasureArgs args{stream.x, int64_t(stream.stride), stream.size, normEpsilon, {stream.scales[0], stream.scales[1]}};
  device.launch("measure_rows", {rows, 1, 256, 256}, args);
}

const float* Work::byPosition(const std::string& name, size_t width, const std::function<void(int, float*)>& fill) {
  PositionTable& table = positionTables_[name];
  if (table.filled < positionsEnd) {
    const int end = std::max(positionsEnd, std::max(1024, table.filled * 2));
    std::vector<float> values(size_t(end) * width);
    for (int position = 0; position < end; position++) fill(position, &values[size_t(position) * width]);
    device.upload(table.memory.room(*this, values.size() * sizeof(float)).as<float>(), values.data(), values.size() * sizeof(float));
    table.filled = end;
  }
  return table.memory.room(*this, 0).as<float>();
}

void Work::launchAttention(AttentionArgs args, int cache) {
  args.positions = tables.positions;
  args.tableStarts = tables.tableStarts;
  args.ends = tables.ends;
  args.tables = tables.tables;
  args.blocks = tables.blocks;
  args.kv = kv + kvLayout.cacheAt(size_t(cache));
  args.blockStride = int64_t(kvStride);
  args.headBytes = int64_t(kvLayout.headBytes(size_t(cache)));
  args.kvType = int32_t(kvLayout.type);
  const int valueSize = args.valuesInKeys > 0 ? args.valuesInKeys : args.headSize;
  const size_t shared = (size_t(args.headSize) + 2 * roundUp(size_t(valueSize), 16)) * sizeof(float);
  device.launch(kvLayout.type == KvType::F16 ? "attend_f16" : "attend_q8", {rows, args.headCount, 32, shared}, args);
}

}  // namespace cuda
}  // namespace chairlift
