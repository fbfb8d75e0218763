// Rows as products read them: normalized, activated or gated, as floats and as int8 codes. A warp makes one group of one row.
// Include after rows.h.
#pragma once

namespace {

constexpr int formPlain = 0, formNormalized = 1, formActivated = 2, formGated = 3;
constexpr int curveSilu = 0, curveGeluTanh = 1, curveGelu = 2, curveSigmoid = 3, curveClamped = 4;

CHAIRLIFT_DEVICE float activated(int curve, float x) {
  switch (curve) {
    case curveSilu: return silu(Vec{x}).lane;
    case curveGeluTanh: return geluTanh(Vec{x}).lane;
    case curveGelu: return gelu(Vec{x}).lane;
    default: return sigmoid(Vec{x}).lane;
  }
}

CHAIRLIFT_DEVICE float inputValue(const MakeInputArgs& args, int64_t row, int i) {
  const float x = args.x[row * args.stride + i];
  if (args.form == formPlain) return x;
  if (args.form == formNormalized) return normalizedValue(x, args.scales[row], args.weight, args.bias, i);
  if (args.form == formActivated) return activated(args.activation, x);
  const float up = args.up[row * args.upStride + i];
  if (args.activation == curveClamped) return clamped(Vec{x}, Vec{up}, args.limit, args.slope).lane;
  return activated(args.activation, x) * up;
}

struct GroupTarget {
  uint32_t* codes;
  float* scales;
  float* sums;
  int groups;
};

/**
 * Stores a group of a row, a value a lane. Groups that pad a row to whole segments have scales and sums of -0: their products are
 * -0, which changes no sum.
 */
CHAIRLIFT_DEVICE void quantizeGroup(const GroupTarget& to, int tile, int row, int group, float value, bool isPadding) {
  const int lane = threadIndex() % 32;
  uint32_t largest = asBits(value) & 0x7fffffffu;
  for (int half = 16; half > 0; half /= 2) {
    const uint32_t other = shuffleXor(largest, half);
    if (other > largest) largest = other;
  }
  const float scale = divided(asFloat(largest), 127.0f);
  const float inverse = scale > 1e-30f ? divided(1.0f, scale) : 0.0f;
  const int code = int(roundToEven(value * inverse));
  int sum = code;
  for (int half = 8; half > 0; half /= 2) sum += shuffleXor(sum, half);
  const int other = shuffleXor(sum, 16);
  const int64_t at = int64_t(tile) * to.groups + group;
  const int byte = row * 32 + lane % 16 / 4 * 8 + lane / 16 * 4 + lane % 4;
  ((int8_t*)to.codes)[at * 256 + byte] = int8_t(code);
  if (lane % 16 != 0) return;
  // Infinity becomes NaN, which no sum hides.
  const float poisoned = isPadding ? -0.0f : scale + (scale - scale);
  if (lane == 0) {
    to.scales[at * rowsOfTile + row] = poisoned;
    to.sums[at * 3 * rowsOfTile + row] = poisoned * float(sum + other);
  }
  to.sums[(at * 3 + 1 + lane / 16) * rowsOfTile + row] = poisoned * float(sum);
}

/** Blocks: x are groups, as many as a block has warps at a time; y are tiles. */
CHAIRLIFT_DEVICE void makeInput(const MakeInputArgs& args) {
  waitForPrevious();
  const int tile = blockY(), warp = threadIndex() / 32, lane = threadIndex() % 32, warps = threadCount() / 32;
  if (args.tileCount && tile >= *args.tileCount) return;
  const Tile own = args.tiles ? args.tiles[tile] : Tile{0, tile * rowsOfTile, args.rows - tile * rowsOfTile};
  const int rows = own.rows < rowsOfTile ? own.rows : rowsOfTile;
  const GroupTarget target{args.codes, args.codeScales, args.sums, args.paddedGroups};
  const int pieces = rowsOfTile * (args.codes ? args.paddedGroups : args.groups);
  for (int piece = blockX() * warps + warp; piece < pieces; piece += blocksX() * warps) {
    const int row = piece % rowsOfTile, group = piece / rowsOfTile, i = group * inputsOfGroup + lane;
    const bool isPadding = group >= args.groups;
    float value = 0;
    if (row < rows && !isPadding) {
      const int64_t input = own.firstRow + row;
      value = inputValue(args, args.places ? args.places[input] : input, i);
      if (args.factors) value = value * args.factors[input];
      if (args.values) args.values[input * args.valueStride + i] = value;
    }
    // Rows that pad a tile are zero.
    if (args.codes) quantizeGroup(target, tile, row, group, value, isPadding);
  }
}

}  // namespace
