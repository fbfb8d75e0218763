// See layers/attention.h.

#include "layers/attention.h"

#include <cmath>

#include "cuda/kernels/vision-args.h"
#include "cuda/layers/registry.h"

namespace chairlift {
namespace cuda {

namespace {

constexpr int headWarps = 4;

const float* growthOf(const Attention& attention, Work& work) {
  if (!attention.growth) return nullptr;
  const QueryGrowth growth = *attention.growth;
  const std::string name = "growth " + std::to_string(growth.weight) + " " + std::to_string(growth.length) + " " +
                           std::to_string(growth.shift);
  return work.byPosition(name, 1, [growth](int position, float* to) {
    const double lengths = std::floor((double(position) + growth.shift) / growth.length);
    *to = float(1 + growth.weight * std::log1p(lengths));
  });
}

bool isOverAll(const std::optional<HeadNorm>& norm) { return norm && norm->over == HeadNorm::Over::All; }

/** The scales of a norm over all heads of a row; null for other norms. */
const Scale* scalesOverAll(const std::optional<HeadNorm>& norm, const char* name, const float* heads, size_t stride, int size,
                           Work& work) {
  if (!isOverAll(norm)) return nullptr;
  auto* scales = reinterpret_cast<Scale*>(work.scratch(name, 2));
  MeasureArgs args{heads, int64_t(stride), size, work.normEpsilon, {}};
  args.scales[size_t(norm->norm.kind)] = scales;
  work.device.launch("measure_rows", {work.rows, 1, 256, 256}, args);
  return scales;
}

void setNorm(const std::optional<HeadNorm>& norm, NormArgs& to, bool& hasOwn, Work& work) {
  if (!norm) return;
  to = work.norm(norm->norm);
  // Weights of a norm over all heads differ from head to head, too.
  hasOwn = norm->over != HeadNorm::Over::Head;
}

/** Rows of images see all of theirs, and all others what they see anyway. */
void attendBothWays(AttentionArgs attend, const Attention& attention, Work& work) {
  work.launchAttention(attend, attention.cache, RowsOf::Text);
  attend.view = {attention.window > 0 ? attention.window + imageShift : 0, 0, true};
  work.launchAttention(attend, attention.cache, RowsOf::Images);
}

}  // namespace

void launch(const Attention& attention, const Input& input, Work& work, float* out) {
  const size_t stride = attention.projectedStride(), attendedStride = paddedLength(attention.querySize());
  float* const projected = work.scratch("projected", stride);
  float* const attended = work.scratch("attended", attendedStride);
  work.multiplier.apply(attention.projection, input, work.rows, projected, stride);

  PlaceHeadsArgs place{};
  place.projected = projected;
  place.stride = int64_t(stride);
  place.keysAt = int64_t(attention.keysAt());
  place.valuesAt = int64_t(attention.valuesAt());
  place.headCount = attention.headCount;
  place.kvHeadCount = attention.kvHeadCount;
  place.headSize = attention.headSize;
  place.stores = attention.stores;
  place.hasValues = attention.hasValues;
  place.normsAfterRope = attention.normsAfterRope;
  setNorm(attention.queryNorm, place.queryNorm, place.queryOwn, work);
  setNorm(attention.keyNorm, place.keyNorm, place.keyOwn, work);
  setNorm(attention.valueNorm, place.valueNorm, place.valueOwn, work);
  const auto measureValues = [&] {
    if (!attention.stores) return;
    const float* const values = projected + (attention.hasValues ? attention.valuesAt() : attention.keysAt());
    place.valueScales = scalesOverAll(attention.valueNorm, "valueScales", values, stride, attention.kvSize(), work);
  };
  const auto measure = [&] {
    place.queryScales = scalesOverAll(attention.queryNorm, "queryScales", projected, stride, attention.querySize(), work);
    if (!attention.stores) return;
    place.keyScales = scalesOverAll(attention.keyNorm, "keyScales", projected + attention.keysAt(), stride, attention.kvSize(), work);
  };
  if (attention.rope) {
    place.rotations = work.rotations[size_t(*attention.rope)];
    place.pairs = work.rotationPairs[size_t(*attention.rope)];
  }
  place.growth = growthOf(attention, work);
  place.positions = work.tables.positions;
  place.blocks = work.tables.blocks;
  place.kv = work.kv + work.kvLayout.cacheAt(size_t(attention.cache));
  place.blockStride = int64_t(work.kvStride);
  place.headBytes = int64_t(work.kvLayout.headBytes(size_t(attention.cache)));
  place.kvType = int32_t(work.kvLayout.type);
  const bool isTurned = attention.rope && work.turned.positions;
  const bool hasImages = attention.imagesBothWays && work.attention.hasImages();
  const int heads = attention.headCount + (attention.stores ? attention.kvHeadCount : 0);
  const auto launchPlace = [&] {
    const size_t shared = size_t(2 * headWarps * attention.headSize) * sizeof(float);
    const Grid grid{work.rows, (heads + headWarps - 1) / headWarps, headWarps * 32, shared};
    if (!isTurned) return work.device.launch("place_heads", grid, place);
    work.device.launch("place_turned_heads", grid, PlaceTurnedArgs{place, work.turned.turns[size_t(*attention.rope)]});
  };
  measureValues();
  if (attention.normsAfterRope && (isOverAll(attention.queryNorm) || isOverAll(attention.keyNorm))) {
    place.what = placeUpToRope;
    launchPlace();
    place.what = placeFromNorms;
  }
  measure();
  AttentionArgs attend{};
  attend.places = !isTurned && !hasImages && work.attention.placesHeads(attention.headSize);
  if (attend.places) attend.place = place;
  else launchPlace();

  attend.queries = projected;
  attend.queryStride = int64_t(stride);
  attend.outputs = attended;
  attend.outputStride = int64_t(attendedStride);
  attend.headCount = attention.headCount;
  attend.kvHeadCount = attention.kvHeadCount;
  attend.headSize = attention.headSize;
  attend.view = {attention.window, attention.chunk, attention.bidirectional};
  attend.scale = attention.scale;
  attend.softcap = attention.softcap;
  attend.sinks = work.weights.vector(attention.sinks);
  if (hasImages) attendBothWays(attend, attention, work);
  else work.launchAttention(attend, attention.cache);

  Input attendedRows{attended, attendedStride, attention.querySize()};
  if (attention.hasGate) {
    attendedRows = {projected + attention.gateAt(), stride, attention.querySize()};
    attendedRows.form = InputForm::Gated;
    attendedRows.curve.kind = Activation::Sigmoid;
    attendedRows.up = attended;
    attendedRows.upStride = attendedStride;
  }
  work.multiplier.apply(attention.output, attendedRows, work.rows, out, work.stream.stride);
}

}  // namespace cuda
}  // namespace chairlift
