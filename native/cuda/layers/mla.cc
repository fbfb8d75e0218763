// See layers/mla.h.

#include "layers/mla.h"

#include "cuda/layers/registry.h"

namespace chairlift {
namespace cuda {

namespace {

constexpr int queryWarps = 4;

class MlaLaunches {
 public:
  MlaLaunches(const Mla& mla, Work& work)
      : mla_(mla),
        work_(work),
        rows_(work.rows),
        heads_(mla.headCount),
        rotations_(work.rotations[size_t(mla.rope)]),
        pairs_(work.rotationPairs[size_t(mla.rope)]),
        stride_(mla.projectedStride()),
        projected_(work.scratch("projected", stride_)) {
    const size_t count = size_t(heads_) * size_t(rows_);
    queryPlaces_ = reinterpret_cast<int32_t*>(work.scratch("queryPlaces", count, 1));
    valuePlaces_ = reinterpret_cast<int32_t*>(work.scratch("valuePlaces", count, 1));
    const int tiles = heads_ * ((rows_ + rowsOfTile - 1) / rowsOfTile);
    tiles_ = reinterpret_cast<Tile*>(work.scratch("headTiles", size_t(tiles), sizeof(Tile) / sizeof(float)));
    byHead_.tiles = tiles_;
    byHead_.most = tiles;
  }

  void run(const Input& input, float* out) {
    work_.multiplier.apply(mla_.projection, input, rows_, projected_, stride_);
    placeRows();
    const float* const queries = makeQueries(input);
    const size_t attendedStride = size_t(heads_) * size_t(mla_.kvLoraRank);
    float* const attended = work_.scratch("attended", attendedStride);
    attend(queries, attended, attendedStride);
    const int count = heads_ * mla_.vHeadDim;
    const size_t stride = paddedLength(count);
    float* const values = work_.scratch("mlaValues", stride);
    const float* const made = applyByHead(mla_.valueUp, attended, mla_.kvLoraRank, valuePlaces_, mla_.vHeadDim, "valuesByHead");
    const OrderHeadsArgs order{made, heads_, mla_.vHeadDim, values, int64_t(stride)};
    work_.device.launch("order_heads", {rows_, 1, 256, 0}, order);
    work_.multiplier.apply(mla_.output, {values, stride, count}, rows_, out, work_.stream.stride);
  }

 private:
  void placeRows() {
    PlaceMlaArgs args{};
    args.projected = projected_;
    args.stride = int64_t(stride_);
    args.kvLoraRank = mla_.kvLoraRank;
    args.qkRopeHeadDim = mla_.qkRopeHeadDim;
    args.queryInputAt = int64_t(mla_.queryInputAt());
    args.queryInputSize = mla_.queryInputSize;
    args.kvNorm = work_.norm(mla_.kvNorm);
    args.queryInputNorm = work_.maybeNorm(mla_.queryInputNorm);
    args.rotations = rotations_;
    args.pairs = pairs_;
    args.positions = work_.tables.positions;
    args.blocks = work_.tables.blocks;
    args.kv = work_.kv + work_.kvLayout.cacheAt(size_t(mla_.cache));
    args.blockStride = int64_t(work_.kvStride);
    args.kvType = int32_t(work_.kvLayout.type);
    args.headCount = heads_;
    args.queryHeads = int32_t(mla_.queryContents());
    args.queryPlaces = queryPlaces_;
    args.valuePlaces = valuePlaces_;
    args.tiles = tiles_;
    work_.device.launch("place_mla", {rows_, 1, 64, 0}, args);
  }

  const float* makeQueries(const Input& input) {
    const size_t stride = mla_.queryContents() * size_t(mla_.qkNopeHeadDim);
    float* const asked = work_.scratch("mlaAsked", stride);
    const Input seen =
        mla_.queryInputNorm ? Input{projected_ + mla_.queryInputAt(), stride_, mla_.queryInputSize} : input;
    work_.multiplier.apply(mla_.query, seen, rows_, asked, stride);
    const float* const compressed =
        applyByHead(mla_.keyUp, asked, mla_.qkNopeHeadDim, queryPlaces_, mla_.kvLoraRank, "queriesByHead");
    float* const queries = work_.scratch("mlaQueries", size_t(heads_) * size_t(mla_.keySize()));
    const MlaQueriesArgs args{compressed, asked + mla_.queryRotatedAt(), int64_t(stride), heads_, mla_.kvLoraRank,
                              mla_.qkRopeHeadDim, rotations_, pairs_, work_.tables.positions, queries};
    work_.device.launch("make_mla_queries", {rows_, (heads_ + queryWarps - 1) / queryWarps, queryWarps * 32, 0}, args);
    return queries;
  }

  /** Each head's own map; the result is ordered by head. */
  const float* applyByHead(const Linear& linear, const float* heads, int size, const int32_t* places, int outputs,
                           const char* name) {
    const size_t count = size_t(heads_) * size_t(rows_);
    float* const made = work_.scratch(name, count, size_t(outputs));
    Input input{heads, size_t(size), size};
    input.places = places;
    work_.multiplier.apply(linear, input, int(count), made, size_t(outputs), byHead_);
    return made;
  }

  void attend(const float* queries, float* attended, size_t attendedStride) {
    AttentionArgs args{};
    args.queries = queries;
    args.queryStride = int64_t(heads_) * mla_.keySize();
    args.outputs = attended;
    args.outputStride = int64_t(attendedStride);
    args.headCount = heads_;
    args.kvHeadCount = 1;
    args.headSize = mla_.keySize();
    args.valuesInKeys = mla_.kvLoraRank;
    args.scale = mla_.scale;
    work_.launchAttention(args, mla_.cache);
  }

  const Mla& mla_;
  Work& work_;
  const int rows_, heads_;
  const float* const rotations_;
  const int pairs_;
  const size_t stride_;
  float* const projected_;
  int32_t* queryPlaces_;
  int32_t* valuePlaces_;
  Tile* tiles_;
  RowTiles byHead_;
};

}  // namespace

void launch(const Mla& mla, const Input& input, Work& work, float* out) { MlaLaunches(mla, work).run(input, out); }

}  // namespace cuda
}  // namespace chairlift
