// Matrix products over every encoding, and the making of their inputs.

#include <algorithm>

#include "equality.h"
#include "model/tiled-rows.h"

namespace chairlift {

namespace {

/** Memory as kernels get it. */
struct alignas(64) Line {
  uint8_t bytes[64];
};
using Lines = std::vector<Line>;

Lines linesFor(size_t bytes) { return Lines((bytes + sizeof(Line) - 1) / sizeof(Line)); }

bool isFloat(Encoding encoding) { return encoding <= Encoding::F8; }

/** Values of both signs, the largest ones that a kernel may be asked to add up, and a unit other than 1. */
constexpr Codebook someCodebook = {{-128, -127, -43, -25, -8, -3, -1, 0, 1, 2, 6, 12, 53, 89, 126, 127}, 0.125f};

/** All kinds of matrices, still without a size. */
std::vector<PackedMatrix> allKinds() {
  std::vector<PackedMatrix> kinds;
  const auto add = [&](Encoding encoding, ScaleType scaleType, bool hasMinimum, int32_t scaleInputs) {
    const bool isQuantized = scaleInputs > 0;
    if (isQuantized && !takesScales(encoding, scaleInputs, scaleType)) return;
    if (hasMinimum && !takesMinimums(encoding, scaleInputs)) return;
    PackedMatrix kind{};
    kind.encoding = encoding;
    kind.scaleType = scaleType;
    kind.hasMinimum = hasMinimum;
    kind.codebook = encoding == Encoding::Codebook ? &someCodebook : nullptr;
    kind.scaleInputs = scaleInputs;
    kinds.push_back(kind);
  };
  for (const Encoding encoding : {Encoding::F32, Encoding::F16, Encoding::BF16}) {
    add(encoding, ScaleType::F16, false, 0);
  }
  for (const int32_t blockInputs : {32, 128, 1024}) {
    add(Encoding::F8, ScaleType::F32, false, 0);
    kinds.back().blockInputs = blockInputs;
  }
  for (const ScaleType scaleType : {ScaleType::F16, ScaleType::BF16, ScaleType::F32, ScaleType::Super, ScaleType::Power}) {
    for (const bool hasMinimum : {false, true}) {
      for (const Encoding encoding :
           {Encoding::Byte, Encoding::Nibble, Encoding::UnsignedNibble, Encoding::Codebook}) {
        add(encoding, scaleType, hasMinimum, 16);
        add(encoding, scaleType, hasMinimum, 32);
      }
      // No format has these with finer scales, and no kernel takes them.
      add(Encoding::UnsignedByte, scaleType, hasMinimum, 32);
    }
  }
  // Scales that several groups share are MLX's.
  for (const ScaleType scaleType : {ScaleType::F16, ScaleType::BF16, ScaleType::F32}) {
    for (const int32_t scaleInputs : {64, 128}) {
      for (const Encoding encoding : {Encoding::UnsignedNibble, Encoding::Byte, Encoding::UnsignedByte}) {
        add(encoding, scaleType, true, scaleInputs);
      }
    }
  }
  return kinds;
}

/** Writes random numbers of one kind from `from` up to `end`. */
template <class Make>
void fill(uint8_t* from, const uint8_t* end, Make make) {
  for (; from < end; from += sizeof(decltype(make()))) {
    const auto value = make();
    memcpy(from, &value, sizeof value);
  }
}

void fillFloats(uint8_t* from, const uint8_t* end, Random& random) {
  fill(from, end, [&] { return random.value(); });
}
/** Any finite ones, subnormals too. */
void fillHalves(uint8_t* from, const uint8_t* end, Random& random) {
  fill(from, end, [&] {
    const uint32_t bits = random.bits();
    return uint16_t((bits & 0xffff) % 0x7c00 | (bits >> 31) << 15);
  });
}
void fillBrains(uint8_t* from, const uint8_t* end, Random& random) {
  fill(from, end, [&] {
    const float value = random.value();
    uint16_t halves[2];
    memcpy(halves, &value, sizeof halves);
    return halves[1];
  });
}
/** All bytes, or nothing but 0, 127, 128 and 255, mixed or one of them alone, so that a sum that saturates shows. */
void fillBytes(uint8_t* from, const uint8_t* end, Random& random) {
  const auto extreme = [&] { return uint8_t(random.oneOf({0, 127, 128, 255})); };
  const int form = random.below(4);
  const uint8_t alone = extreme();
  fill(from, end, [&] { return form == 0 ? alone : form == 1 ? extreme() : uint8_t(random.below(256)); });
}

/** Any that are allowed, mostly small ones: sums with the large ones are infinite. */
void fillPowers(uint8_t* from, const uint8_t* end, Random& random) {
  const int most = random.below(4) == 0 ? largestPower : 140;
  fill(from, end, [&] { return uint8_t(random.below(most + 1)); });
}

/** Scales of either sign, as wide as powers are. */
void fillBrainScales(uint8_t* from, const uint8_t* end, Random& random) {
  const int most = random.below(4) == 0 ? largestPower : 140;
  fill(from, end, [&] { return uint16_t(random.below(2) << 15 | random.below(most + 1) << 7 | random.below(128)); });
}

/** A matrix of random weights and the memory of its panels. */
struct RandomMatrix {
  RandomMatrix(PackedMatrix kind, int outputs, int inputs, Random& random) : packed(kind) {
    packed.outputs = outputs;
    packed.inputs = inputs;
    packed.panelBytes = panelBytes();
    lines = linesFor(packed.panelBytes * size_t(panels()));
    packed.panels = lines.data()->bytes;
    for (int panel = 0; panel < panels(); panel++) {
      uint8_t* at = lines.data()->bytes + size_t(panel) * packed.panelBytes;
      uint8_t* end = at + packed.panelBytes;
      if (kind.encoding == Encoding::F32) fillFloats(at, end, random);
      else if (kind.encoding == Encoding::F16) fillHalves(at, end, random);
      else if (kind.encoding == Encoding::BF16) fillBrains(at, end, random);
      else if (kind.encoding == Encoding::F8) fillBlocks(at, end, random);
      else fillChunks(at, random);
    }
  }
  RandomMatrix(const RandomMatrix&) = delete;

  int panels() const { return (packed.outputs + panelColumns - 1) / panelColumns; }

  PackedMatrix packed;
  Lines lines;

 private:
  size_t panelBytes() const {
    if (packed.encoding == Encoding::F8) return size_t(packed.inputs / packed.blockInputs) * packed.blockBytes();
    if (isFloat(packed.encoding)) {
      return linesFor(size_t(packed.inputs) * panelColumns * (packed.encoding == Encoding::F32 ? 4 : 2)).size() * 64;
    }
    size_t bytes = 0;
    for (int chunk = 0; chunk < packed.chunks(); chunk++) bytes += packed.chunkBytes(packed.groupsIn(chunk));
    return bytes;
  }
  void fillBlocks(uint8_t* block, const uint8_t* end, Random& random) {
    for (; block < end; block += packed.blockBytes()) {
      uint8_t* codes = block + panelColumns * sizeof(float);
      fillFloats(block, codes, random);
      // All but the two that are no numbers.
      fill(codes, block + packed.blockBytes(), [&] { return uint8_t(random.below(127) | random.below(2) << 7); });
    }
  }
  void fillChunks(uint8_t* chunk, Random& random) {
    for (int c = 0; c < packed.chunks(); c++) {
      const int groups = packed.groupsIn(c);
      uint8_t *scales = chunk + packed.scalesAt(groups), *supers = chunk + packed.supersAt(groups);
      for (uint8_t* at = chunk; at < scales; at += packed.codeBytes()) fillBytes(at, at + packed.codeBytes(), random);
      if (packed.scaleType == ScaleType::F32) fillFloats(scales, supers, random);
      else if (packed.scaleType == ScaleType::F16) fillHalves(scales, supers, random);
      else if (packed.scaleType == ScaleType::BF16) fillBrainScales(scales, supers, random);
      else if (packed.scaleType == ScaleType::Power) fillPowers(scales, supers, random);
      else fillBytes(scales, supers, random);
      chunk += packed.chunkBytes(groups);
      fillHalves(supers, chunk, random);
    }
  }
};

/** Inputs that a matrix of this kind has a multiple of. */
int inputStep(const PackedMatrix& kind) {
  if (kind.blockInputs > 0) return kind.blockInputs;
  return isFloat(kind.encoding) ? 1 : std::max(groupInputs, kind.scaleInputs);
}

int fewInputs(const PackedMatrix& kind, Random& random) {
  if (kind.blockInputs > 0) return kind.blockInputs * random.oneOf({1, 2, 3});
  return isFloat(kind.encoding) ? 1 + random.below(70) : inputStep(kind) * random.oneOf({1, 2, 3, 10});
}

void holdProduct(Equality& equality, Random& random, const PackedMatrix& kind, int rows, int inputs) {
  const int outputs = random.oneOf({1, 16, 35});
  const RandomMatrix matrix(kind, outputs, inputs, random);
  // At times all inputs are as large as can be, for the sake of the largest sums.
  const bool isLoud = random.below(8) == 0;
  const size_t values = size_t(rows * inputs);
  const std::vector<float> x = isLoud ? std::vector<float>(values, random.oneOf({-1.0f, 1.0f}))
                                      : random.values(values, random.below(8) == 0);
  const std::vector<float> bias = random.values(size_t(matrix.panels()) * panelColumns);
  const bool biased = random.below(2) == 0;
  const int split = random.below(matrix.panels() + 1);
  const std::string what = "multiply " + std::to_string(rows) + " rows, encoding " +
                           std::to_string(int(kind.encoding)) + ", scales " + std::to_string(int(kind.scaleType)) +
                           " for " + std::to_string(kind.scaleInputs);
  equality.hold(what, [&](const KernelTable& kernels) {
    const TiledRows input(kernels, x.data(), rows, inputs);
    // Room between rows shows what a kernel writes beside its own columns.
    const size_t stride = size_t(outputs) + 3;
    std::vector<float> out(stride * size_t(rows), 0.5f);
    const auto multiply = [&](int first, int end) {
      kernels.multiply(matrix.packed, input.view, first, end, biased ? bias.data() : nullptr, out.data(), stride);
    };
    multiply(split, matrix.panels());
    multiply(0, split);
    return out;
  });
}

/** Groups from task.firstGroup on: values row by row and as a tile, codes and what goes with them. */
std::vector<float> madeInput(const KernelTable& kernels, InputTask task) {
  std::vector<float> out(size_t(task.rows) * task.valueStride, 0.5f);
  std::vector<int8_t> codes(size_t(task.endGroup) * groupCodes);
  std::vector<GroupSide> sides(size_t(task.endGroup), GroupSide{});
  std::vector<float> tile(size_t(task.endGroup * task.rows * groupInputs), 0.5f);
  task.values = out.data();
  task.tile = tile.data();
  task.codes = codes.data();
  task.sides = sides.data();
  kernels.makeInput(task);
  out.insert(out.end(), tile.begin(), tile.end());
  for (int group = 0; group < task.endGroup; group++) {
    const GroupSide& side = sides[size_t(group)];
    for (int row = 0; row < task.rows; row++) {
      out.push_back(side.scale[row]);
      for (const auto& sums : side.sum) out.push_back(sums[row]);
      // A group with a value that is not finite has NaN for its scale, and its codes mean nothing.
      if (std::isnan(side.scale[row])) continue;
      for (const auto& offsets : side.offset) out.push_back(float(offsets[row]));
      const int8_t* own = &codes[size_t(group) * groupCodes + size_t(row) * groupInputs];
      out.insert(out.end(), own, own + groupInputs);
    }
  }
  return out;
}

void holdMakeInput(Equality& equality, Random& random) {
  InputTask task{};
  task.rows = 1 + random.below(tileRows);
  task.endGroup = 1 + random.below(9);
  task.firstGroup = random.below(task.endGroup);
  const size_t inputs = size_t(task.endGroup) * groupInputs, stride = inputs + 5;
  task.valueStride = inputs + 2;
  std::vector<float> x = random.values(size_t(task.rows) * stride, random.below(2) == 0);
  const std::vector<float> up = random.values(x.size(), random.below(4) == 0), weight = random.values(inputs);
  const std::vector<float> bias = random.values(inputs), factors = random.values(size_t(task.rows));
  task.form = random.oneOf({InputForm::Plain, InputForm::Normalized, InputForm::Activated, InputForm::Gated});
  task.activation = random.oneOf(
      {Activation::Silu, Activation::GeluTanh, Activation::Gelu, Activation::Sigmoid, Activation::Clamped, Activation::QuickGelu});
  task.limit = 7;
  task.slope = 1.702f;
  task.weight = weight.data();
  if (random.below(2) == 0) task.bias = bias.data();
  if (random.below(4) == 0) task.factors = factors.data();
  for (int row = 0; row < task.rows; row++) {
    // Rows of a task may lie anywhere.
    const size_t at = size_t(random.below(task.rows)) * stride;
    task.x[row] = &x[at];
    task.up[row] = &up[at];
    task.scales[row] = {random.oneOf({0.0f, 0.25f}), random.value()};
  }
  if (task.form == InputForm::Plain && random.below(2) == 0) {
    // A scale of 1, and half of the values halfway between two codes.
    for (size_t i = 0; i < x.size(); i++) {
      x[i] = i % stride % groupInputs == 0 ? 127.0f : float(random.below(509) - 254) / 2;
    }
  }
  equality.hold("makeInput", [&](const KernelTable& kernels) { return madeInput(kernels, task); });
}

}  // namespace

void holdProducts(Equality& equality, Random& random) {
  for (int i = 0; i < 600; i++) holdMakeInput(equality, random);
  for (const PackedMatrix& kind : allKinds()) {
    for (int rows = 1; rows <= 40; rows++) holdProduct(equality, random, kind, rows, fewInputs(kind, random));
    // Several segments, the last one shorter, for one row, few, as many as tiles take in pairs, and more.
    for (const int inputs : {544, 1024 + 32, 2880}) {
      const int step = inputStep(kind), whole = (inputs + step - 1) / step * step;
      for (const int rows : {1, 2 + random.below(3), 5 + random.below(4), 9 + random.below(13)}) {
        holdProduct(equality, random, kind, rows, whole);
      }
    }
    // More rows than share widened weights, and more inputs than stay cached.
    if (isFloat(kind.encoding)) holdProduct(equality, random, kind, 131, inputStep(kind) == 1 ? 1101 : 2048);
  }
}

}  // namespace chairlift
