// Rows as products read them: normalized, activated or gated, as floats and as int8 codes. A lane has four values of a row.
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

/** Four neighbouring values, the share of one lane: eight lanes have a group. */
struct Four {
  float of[4];
};

CHAIRLIFT_DEVICE Four readFour(const float* from, bool isAligned) {
  if (!isAligned) return {{from[0], from[1], from[2], from[3]}};
  const Floats4 own = *(const Floats4*)from;
  return {{own.x, own.y, own.z, own.w}};
}

/** Of rows that a rehearsal may have read before they were written, see makeInput: no cache of the multiprocessor keeps those. */
CHAIRLIFT_DEVICE Four readFresh(const float* from, bool isAligned) {
  if (!isAligned) return {{loadFresh(from), loadFresh(from + 1), loadFresh(from + 2), loadFresh(from + 3)}};
  const Floats4 own = loadFresh((const Floats4*)from);
  return {{own.x, own.y, own.z, own.w}};
}

CHAIRLIFT_DEVICE Four normalizedFour(Four x, Scale scale, const float* weight, const float* bias, int first) {
  const Four weights = readFour(weight + first, true), biases = bias ? readFour(bias + first, true) : Four{};
#pragma unroll
  for (int i = 0; i < 4; i++) {
    x.of[i] = normalizedValue(x.of[i], scale, weights.of[i]);
    if (bias) x.of[i] = x.of[i] + biases.of[i];
  }
  return x;
}

/** Both operands are loaded before either is used. */
CHAIRLIFT_DEVICE Four inputFour(const MakeInputArgs& args, int64_t row, int first) {
  Four x = readFresh(args.x + row * args.stride + first, args.isAligned);
  if (args.form == formPlain) return x;
  if (args.form == formNormalized) return normalizedFour(x, args.scales[row], args.weight, args.bias, first);
  const bool isGated = args.form == formGated;
  const Four up = isGated ? readFresh(args.up + row * args.upStride + first, args.isAligned) : Four{};
  if (isGated && args.activation == curveClamped) {
#pragma unroll
    for (int i = 0; i < 4; i++) x.of[i] = clamped(Vec{x.of[i]}, Vec{up.of[i]}, args.limit, args.slope).lane;
    return x;
  }
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const float value = activated(args.activation, x.of[i]);
    x.of[i] = isGated ? value * up.of[i] : value;
  }
  return x;
}

/** The scale of a group of one row, and it times the sums of codes. */
struct GroupScale {
  float scale, whole, firstHalf, secondHalf;
};

/**
 * Stores the codes of four groups of a row, those of a lane's group from `codes` on; all lanes of a group have its scale. Groups
 * that pad a row to whole segments have scales and sums of -0: their products are -0, which changes no sum.
 */
CHAIRLIFT_DEVICE GroupScale quantizeGroups(uint32_t* codes, int row, const Four& values, bool isPadding, bool stores = true) {
  const int lane = threadIndex() % 32, t = lane % 4, upper = lane / 4 % 2;
  uint32_t largest = 0;
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const uint32_t magnitude = asBits(values.of[i]) & 0x7fffffffu;
    if (magnitude > largest) largest = magnitude;
  }
#pragma unroll
  for (int half = 4; half > 0; half /= 2) {
    const uint32_t other = shuffleXor(largest, half);
    if (other > largest) largest = other;
  }
  const float scale = divided(asFloat(largest), 127.0f);
  const float inverse = scale > 1e-30f ? divided(1.0f, scale) : 0.0f;
  uint32_t word = 0;
  int sum = 0;
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const int code = int(roundToEven(values.of[i] * inverse));
    word |= (uint32_t(code) & 255u) << (8 * i);
    sum += code;
  }
  if (stores) codes[row * 8 + t * 2 + upper] = word;
  sum += shuffleXor(sum, 1);
  sum += shuffleXor(sum, 2);
  const int other = shuffleXor(sum, 4);
  // Infinity becomes NaN, which no sum hides.
  const float poisoned = isPadding ? -0.0f : scale + (scale - scale);
  return {poisoned, poisoned * float(sum + other), poisoned * float(upper ? other : sum), poisoned * float(upper ? sum : other)};
}

CHAIRLIFT_DEVICE void storeScale(const CodesTarget& to, int64_t group, int row, const GroupScale& own) {
  float* const sums = to.sums + group * 3 * rowsOfTile + row;
  to.scales[group * rowsOfTile + row] = own.scale;
  sums[0] = own.whole;
  sums[rowsOfTile] = own.firstHalf;
  sums[2 * rowsOfTile] = own.secondHalf;
}

/**
 * A warp has four groups of one row or of a tile's rows, whose scales it stores together. Blocks: x are such pieces, y are tiles.
 * Rows that pad a tile have scales of zero, or what they had before: nobody reads their products.
 */
CHAIRLIFT_DEVICE void makeInput(const MakeInputArgs& args, bool stores) {
  const int tile = blockY(), lane = threadIndex() % 32, piece = blockX() * (threadCount() / 32) + threadIndex() / 32;
  if (args.tileCount && tile >= *args.tileCount) return;
  const Tile own = args.tiles ? args.tiles[tile] : Tile{0, tile * rowsOfTile, args.rows - tile * rowsOfTile};
  const int rows = own.rows < rowsOfTile ? own.rows : rowsOfTile;
  const int firstRow = args.rowWarps == 1 ? 0 : piece % rowsOfTile, afterRow = firstRow + args.rowsOfWarp;
  const int firstGroup = (args.rowWarps == 1 ? piece : piece / rowsOfTile) * 4;
  if (firstGroup >= (args.to.codes ? args.to.groups : args.groups)) return;
  const int group = firstGroup + lane / 8, first = group * inputsOfGroup + lane % 8 * 4;
  const bool isPadding = group >= args.groups;
  const int64_t at = int64_t(tile) * args.to.groups + group;
  GroupScale kept{};
  for (int row = firstRow; row < afterRow && row < rows; row++) {
    Four values{};
    if (!isPadding) {
      const int64_t input = own.firstRow + row;
      values = inputFour(args, args.places ? args.places[input] : input, first);
      if (args.factors) {
        for (int i = 0; i < 4; i++) values.of[i] = values.of[i] * args.factors[input];
      }
      if (args.values && stores) {
        *(Floats4*)(args.values + input * args.valueStride + first) = {values.of[0], values.of[1], values.of[2], values.of[3]};
      }
    }
    if (!args.to.codes) continue;
    const GroupScale made = quantizeGroups(args.to.codes + at * 64, row, values, isPadding, stores);
    if (lane % 8 == row) kept = made;
  }
  if (stores && args.to.codes && lane % 8 >= firstRow && lane % 8 < afterRow) storeScale(args.to, at, lane % 8, kept);
}

/**
 * Of a few rows, all is done twice: a rehearsal, while the kernel before is at work, brings code and arguments nearer. What it reads may
 * be written at that time, and what it makes is not stored.
 */
CHAIRLIFT_DEVICE void makeInput(const MakeInputArgs& args) {
  startNext();
  const bool isRehearsed = args.rows <= rowsOfTile && !args.tiles && !args.places && !args.factors && args.form != formNormalized;
#pragma unroll 1
  for (int pass = isRehearsed ? 0 : 1; pass < 2; pass++) {
    if (pass == 1) waitForPrevious();
    makeInput(args, pass == 1);
  }
}

/** Makes codes of a row in shared memory that all threads see, with a norm; `row` is padded with zeros to whole groups. */
CHAIRLIFT_DEVICE void makeNextInput(const float* weight, const float* bias, Scale scale, const float* row, int groups,
                                    const CodesTarget& to, int index) {
  const int lane = threadIndex() % 32, rowOfTile = index % rowsOfTile;
#pragma unroll 1
  for (int firstGroup = threadIndex() / 32 * 4; firstGroup < to.groups; firstGroup += threadCount() / 32 * 4) {
    const int group = firstGroup + lane / 8, first = group * inputsOfGroup + lane % 8 * 4;
    const bool isPadding = group >= groups;
    const Four values = isPadding ? Four{} : normalizedFour(readFour(row + first, true), scale, weight, bias, first);
    const int64_t at = int64_t(index / rowsOfTile) * to.groups + group;
    const GroupScale made = quantizeGroups(to.codes + at * 64, rowOfTile, values, isPadding);
    if (lane % 8 == rowOfTile) storeScale(to, at, rowOfTile, made);
  }
}

}  // namespace
