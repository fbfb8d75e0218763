// See adapters.h.

#include "cuda/adapters.h"

#include <algorithm>

namespace chairlift {
namespace cuda {

namespace {

constexpr int adapterThreads = 128;

AdaptedRows gatherAdapted(AdapterTilesArgs args, const RowTiles& tiles, Work& work) {
  // Most linear maps read the rows of the step as they are: those are gathered once.
  const bool isPlain = !tiles.tiles && !args.owners;
  const std::string suffix = isPlain ? " " + std::to_string(args.adapter) : "";
  if (isPlain) {
    const auto found = work.adapters.gathered.find(args.adapter);
    if (found != work.adapters.gathered.end()) return found->second;
  }
  const int most = tiles.tiles ? tiles.most : (args.rows + rowsOfTile - 1) / rowsOfTile;
  args.adapters = work.adapters.rows;
  args.tiles = tiles.tiles;
  args.tileCount = tiles.count;
  args.to = work.scratchOf<Tile>(("adapterTiles" + suffix).c_str(), size_t(most));
  args.places = work.scratchOf<int32_t>(("adapterPlaces" + suffix).c_str(), size_t(args.rows));
  work.device.launch("adapter_tiles", {(most + adapterThreads - 1) / adapterThreads, 1, adapterThreads, 0}, args);
  const AdaptedRows adapted{{args.to, tiles.count, most}, args.places};
  if (isPlain) work.adapters.gathered[args.adapter] = adapted;
  return adapted;
}

}  // namespace

std::vector<int32_t> usedAdapters(const StepInput& input) {
  std::vector<int32_t> used;
  for (const int32_t adapter : input.adapters) {
    if (adapter >= 0) used.push_back(adapter);
  }
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  return used;
}

void AdapterTable::beginStep(const StepInput& input, int rows, Work& work) {
  if (work.adapters.used.empty()) return;
  words_.assign(size_t(rows), -1);
  for (size_t sequence = 0; sequence < input.adapters.size(); sequence++) {
    std::fill(words_.begin() + input.rowStarts[sequence], words_.begin() + input.rowStarts[sequence + 1], input.adapters[sequence]);
  }
  auto* device = table_.room(work, words_.size() * sizeof(int32_t)).as<int32_t>();
  work.device.upload(device, words_.data(), words_.size() * sizeof(int32_t));
  work.adapters.rows = device;
}

AdaptedRows adaptedRows(const Addition& addition, const int32_t* owners, int rows, const RowTiles& tiles, Work& work) {
  AdapterTilesArgs args{};
  args.adapter = addition.adapter;
  args.owners = owners;
  args.rows = rows;
  args.firstMember = addition.firstMember;
  args.members = addition.members;
  return gatherAdapted(args, tiles, work);
}

AdaptedRows adaptedRows(int adapter, int rows, Work& work) {
  AdapterTilesArgs args{};
  args.adapter = adapter;
  args.rows = rows;
  args.members = 1;
  return gatherAdapted(args, {}, work);
}

void addAdapted(const AdaptedRows& rows, AddAdaptedArgs args, Work& work) {
  args.tiles = rows.tiles.tiles;
  args.tileCount = rows.tiles.count;
  args.places = rows.places;
  const int pieces = (args.outputs + adapterThreads - 1) / adapterThreads;
  work.device.launch("add_adapted", {pieces, rows.tiles.most, adapterThreads, 0}, args);
}

}  // namespace cuda
}  // namespace chairlift
