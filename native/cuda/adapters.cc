// See adapters.h.

#include "cuda/adapters.h"

namespace chairlift {
namespace cuda {

namespace {

constexpr int adapterThreads = 128;

AdaptedRows gatherAdapted(AdapterTilesArgs args, const RowTiles& tiles, Work& work) {
  const int most = tiles.tiles ? tiles.most : (args.rows + rowsOfTile - 1) / rowsOfTile;
  args.adapters = work.tables.adapters;
  args.tiles = tiles.tiles;
  args.tileCount = tiles.count;
  args.to = work.scratchOf<Tile>("adapterTiles", size_t(most));
  args.places = work.scratchOf<int32_t>("adapterPlaces", size_t(args.rows));
  work.device.launch("adapter_tiles", {(most + adapterThreads - 1) / adapterThreads, 1, adapterThreads, 0}, args);
  return {{args.to, tiles.count, most}, args.places};
}

}  // namespace

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
