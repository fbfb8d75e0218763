// See work.h: linear maps on the device.

#include <algorithm>
#include <stdexcept>

#include "cuda/adapters.h"

namespace chairlift {
namespace cuda {

namespace {

constexpr int inputWarps = 8;
constexpr int mostProductWarps = 16;

/** The kernel of a matrix, without the number of its tiles. */
std::string formatName(const MatrixView& matrix) {
  static const char* const encodings[] = {"", "", "", "", "byte", "unsigned_byte", "nibble", "unsigned_nibble", "codebook"};
  static const char* const scales[] = {"f16", "bf16", "f32", "super", "power"};
  return std::string(encodings[matrix.encoding]) + "_" + scales[matrix.scaleType] + "_" + std::to_string(matrix.scaleInputs) +
         (matrix.hasMinimum ? "_minimum" : "");
}

std::string kernelOf(const MatrixView& matrix, int tiles) {
  static const char* const floats[] = {"multiply_f32", "multiply_f16", "multiply_bf16", "multiply_f8"};
  if (matrix.scaleInputs == 0) return floats[matrix.encoding];
  return "few" + std::to_string(tiles) + "_" + formatName(matrix);
}

int segmentsOf(const MatrixView& matrix) {
  const int length = std::max(inputsOfSegment, int(matrix.blockInputs));
  return (matrix.inputs + length - 1) / length;
}

}  // namespace

InputView Multiplier::makeInput(const Linear& linear, const Input& input, int rows, const RowTiles& tiles, bool wantsValues) {
  Device& device = work_.device;
  const size_t groups = roundUp(size_t(input.count), inputsOfGroup) / inputsOfGroup;
  const size_t tileCount = tiles.tiles ? size_t(tiles.most) : roundUp(size_t(rows), rowsOfTile) / rowsOfTile;
  const bool codes = linear.readsCodes();
  const bool isCopied = input.form != InputForm::Plain || input.places || input.factors;
  const bool values = (wantsValues || linear.readsValues()) && isCopied;
  InputView view{};
  view.groups = int32_t(groups);
  view.values = input.x;
  view.valueStride = int64_t(input.stride);
  MakeInputArgs args{};
  if (codes) {
    // Products of several tiles at once read those after the last, too.
    const size_t units = (tileCount + 3) * groups;
    view.codes = args.codes = codes_.room(work_, units * 256).as<uint32_t>();
    view.scales = args.codeScales = scales_.room(work_, units * rowsOfTile * sizeof(float)).as<float>();
    view.sums = args.sums = sums_.room(work_, units * 3 * rowsOfTile * sizeof(float)).as<float>();
  }
  if (values) {
    view.valueStride = args.valueStride = int64_t(groups * inputsOfGroup);
    const size_t bytes = roundUp(size_t(rows), rowsOfTile) * size_t(args.valueStride) * sizeof(float);
    view.values = args.values = values_.room(work_, bytes).as<float>();
  }
  if (!codes && !values) return view;
  args.form = int32_t(input.form);
  args.activation = int32_t(input.curve.kind);
  args.limit = input.curve.limit;
  args.slope = input.curve.slope;
  args.x = input.x;
  args.stride = int64_t(input.stride);
  args.up = input.up;
  args.upStride = int64_t(input.upStride);
  args.scales = input.scales;
  if (input.norm) {
    args.weight = work_.weights.vector(input.norm->weight);
    args.bias = work_.weights.vector(input.norm->bias);
  }
  args.places = input.places;
  args.factors = input.factors;
  args.tiles = tiles.tiles;
  args.tileCount = tiles.count;
  args.rows = rows;
  args.groups = int32_t(groups);
  const int blocks = int((groups * rowsOfTile + inputWarps - 1) / inputWarps);
  device.launch("make_input", {blocks, int(tileCount), inputWarps * 32, 0}, args);
  return view;
}

void Multiplier::apply(const Linear& linear, const Input& input, int rows, float* out, size_t outStride, const RowTiles& tiles) {
  if (rows == 0) return;
  const bool adds = work_.adapters.useAny(linear.additions);
  const InputView view = makeInput(linear, input, rows, tiles, adds);
  const int tileCount = tiles.tiles ? tiles.most : (rows + rowsOfTile - 1) / rowsOfTile;
  // Parts of one format share a launch.
  for (size_t first = 0; first < linear.parts.size();) {
    ProductArgs args{};
    args.input = view;
    args.tiles = tiles.tiles;
    args.tileCount = tiles.count;
    args.rows = rows;
    args.out = out;
    args.outStride = int64_t(outStride);
    const MatrixView& matrix = work_.weights.matrix(*linear.parts[first].matrix);
    const bool isFloat = matrix.scaleInputs == 0;
    const int atOnce = isFloat || tiles.tiles ? 1 : tileCount >= 4 ? 4 : tileCount >= 2 ? 2 : 1;
    const std::string kernel = kernelOf(matrix, atOnce);
    int panels = 0;
    for (; first < linear.parts.size() && args.partCount < mostParts; first++) {
      const Linear::Part& part = linear.parts[first];
      const MatrixView& own = work_.weights.matrix(*part.matrix);
      if (args.partCount > 0 && kernelOf(own, atOnce) != kernel) break;
      args.parts[args.partCount++] = {own, work_.weights.vector(part.bias), int64_t(part.offset)};
      panels += own.panels;
    }
    const int segments = segmentsOf(matrix), warps = std::min(segments, mostProductWarps);
    const size_t shared = size_t(segments) * panelOutputs * size_t(rowsOfTile * atOnce) * sizeof(float);
    work_.device.launch(kernel.c_str(), {panels, (tileCount + atOnce - 1) / atOnce, warps * 32, shared}, args);
  }
  if (!adds) return;
  for (const Addition& addition : linear.additions) {
    if (work_.adapters.uses(addition.adapter)) add(addition, input, view, rows, tiles, out, outStride);
  }
}

void Multiplier::add(const Addition& addition, const Input& input, const InputView& view, int rows, const RowTiles& tiles,
                     float* out, size_t outStride) {
  if (!inner_) inner_ = std::make_unique<Multiplier>(work_);
  const AdaptedRows adapted = adaptedRows(addition, input.owners ? input.owners : input.places, rows, tiles, work_);
  const size_t reducedStride = paddedLength(addition.rank), addedStride = paddedLength(addition.outputs);
  float* const reduced = work_.scratch("reduced", size_t(rows), reducedStride);
  float* const added = work_.scratch("added", size_t(rows), addedStride);
  Input seen{view.values, size_t(view.valueStride), input.count};
  seen.places = adapted.places;
  inner_->apply(addition.down, seen, rows, reduced, reducedStride, adapted.tiles);
  inner_->apply(addition.up, {reduced, reducedStride, addition.rank}, rows, added, addedStride, adapted.tiles);
  AddAdaptedArgs args{};
  args.added = added;
  args.addedStride = int64_t(addedStride);
  args.scale = addition.scale;
  args.outputs = addition.outputs;
  args.factors = work_.weights.vector(addition.factors);
  args.shifts = work_.weights.vector(addition.shifts);
  args.out = out + addition.offset;
  args.outStride = int64_t(outStride);
  addAdapted(adapted, args, work_);
}

}  // namespace cuda
}  // namespace chairlift
