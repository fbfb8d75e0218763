// See work.h.

#include "cuda/work.h"

#include <algorithm>

namespace chairlift {
namespace cuda {

DeviceMemory& Growing::room(Work& work, size_t bytes) {
  if (memory_.bytes() < bytes) {
    // A step may be under way that reads the old, which is released first: both at once may not fit.
    if (memory_.bytes() > 0) work.device.wait();
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
  const auto [found, isNew] = positionTables_.try_emplace(name);
  PositionTable& table = found->second;
  if (isNew) {
    table.width = width;
    table.fill = fill;
  }
  extend(table);
  return table.memory.as<float>();
}

void Work::extendPositions(int end) {
  positionsEnd = end;
  for (auto& [name, table] : positionTables_) extend(table);
}

void Work::extend(PositionTable& table) {
  if (table.filled >= positionsEnd) return;
  const int end = std::max(positionsEnd, std::max(1024, table.filled * 2));
  std::vector<float> values(size_t(end) * table.width);
  for (int position = 0; position < end; position++) table.fill(position, &values[size_t(position) * table.width]);
  const size_t bytes = values.size() * sizeof(float);
  device.upload(table.memory.room(*this, bytes).as<float>(), values.data(), bytes);
  table.filled = end;
}

void Work::launchAttention(AttentionArgs args, int cache, RowsOf rows) {
  args.tables = tables.tables;
  args.kv = kv + kvLayout.cacheAt(size_t(cache));
  args.blockStride = int64_t(kvStride);
  args.headBytes = int64_t(kvLayout.headBytes(size_t(cache)));
  args.kvType = int32_t(kvLayout.type);
  attention.launch(*this, args, rows);
}

}  // namespace cuda
}  // namespace chairlift
