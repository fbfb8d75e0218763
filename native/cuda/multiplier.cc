// See work.h: linear maps on the device.

#include <algorithm>
#include <set>
#include <stdexcept>

#include "cuda/adapters.h"
#include "cuda/kernels/formats.h"
#include "cuda/kernels/shapes.h"
#include "cuda/work.h"

namespace chairlift {
namespace cuda {

namespace {

// Of make_input, as many as keep a multiprocessor busy.
constexpr int inputWarpsOfMultiprocessor = 16;
constexpr int mostFloatWarps = 8;

// How fast products of four tiles and of many are, measured on an H200 in 10^12 operations a second.
constexpr double fewSpeed = 190, manySpeed = 305;

/** Whether parts of a linear can share a launch. */
bool areAlike(const MatrixView& one, const MatrixView& other) {
  return one.encoding == other.encoding && one.scaleType == other.scaleType && one.scaleInputs == other.scaleInputs &&
         one.hasMinimum == other.hasMinimum && one.blockInputs == other.blockInputs && one.unit == other.unit &&
         std::equal(one.codebook, one.codebook + 4, other.codebook);
}

bool isCommon(const std::string& format) {
#define CHAIRLIFT_NAME(name, ...) #name,
  static const std::set<std::string> common{CHAIRLIFT_COMMON_FORMATS(CHAIRLIFT_NAME)};
#undef CHAIRLIFT_NAME
  return common.count(format) > 0;
}

int segmentsOf(const MatrixView& matrix) {
  const int length = std::max(inputsOfSegment, int(matrix.blockInputs));
  return (matrix.inputs + length - 1) / length;
}

// See FewRows of kernels/products-few.h.
struct FewShape {
  // Of a block; blocks of a multiprocessor; the most segments of rows that a block keeps at once.
  int warps, blocks, segments;
};
constexpr FewShape fewShapes(int tiles) {
  return tiles <= 2 ? FewShape{8, 2, 8} : FewShape{8, 1, 4};
}
constexpr size_t fewPartialBytes(int tiles) { return size_t(tiles * rowsOfTile * (panelOutputs + 4)) * sizeof(float); }

size_t fewSharedBytes(const MatrixView& matrix, int tiles, const FewPlan& plan) {
  const size_t sums = !matrix.hasMinimum ? 0 : matrix.scaleInputs < inputsOfGroup ? 64 : 32;
  const size_t rows = size_t(plan.segments * groupsOfSegment * tiles) * (256 + 32 + sums);
  const size_t kept = plan.buffers > 1 ? size_t(plan.panels) : 0;
  return size_t(plan.buffers) * rows + (2 * size_t(fewShapes(tiles).warps) + kept) * fewPartialBytes(tiles);
}

/** Partial sums of a panel, which a block keeps until it adds them. */
size_t partialBytes(int segments, int rows) { return size_t(segments * panelOutputs * rows) * sizeof(float); }

bool holdsBytes(const MatrixView& matrix) {
  return Encoding(matrix.encoding) == Encoding::Byte || Encoding(matrix.encoding) == Encoding::UnsignedByte;
}

/** See PanelStage of kernels/products-stage.h. */
size_t panelStageBytes(const MatrixView& matrix, int groups) {
  static const size_t bytesOfScale[] = {2, 2, 4, 1, 1};
  const size_t codes = size_t(groups) * (holdsBytes(matrix) ? 512 : 256);
  // Stages have room for the scales of 64 inputs where those of 128 are shared.
  const int scaleGroups = groups * inputsOfGroup / std::min(int(matrix.scaleInputs), 2 * inputsOfGroup);
  const size_t quads = std::max<size_t>(1, size_t(scaleGroups) / 4);
  const size_t scales = quads * 64 * bytesOfScale[matrix.scaleType];
  const size_t chunks = std::max<size_t>(1, size_t(groups) / 8);
  const size_t supers = ScaleType(matrix.scaleType) == ScaleType::Super ? chunks * (matrix.hasMinimum ? 64 : 32) : 0;
  return codes + scales * (matrix.hasMinimum ? 2 : 1) + supers;
}

/** See ManyLayout of kernels/products-many.h. */
size_t manySharedBytes(const MatrixView& matrix, const BlockShape& shape) {
  const size_t sums = matrix.hasMinimum ? 96 : 0;
  const size_t tile = size_t(shape.step) * (256 + 32 + sums);
  const size_t stage = size_t(shape.blockPanels()) * panelStageBytes(matrix, shape.step) + size_t(shape.blockTiles()) * tile;
  const size_t segmentSums = shape.sumsShared ? size_t(shape.panels * shape.tiles * 4 * shape.threads()) * sizeof(float) : 0;
  return size_t(shape.stages) * stage + segmentSums;
}

/** See FloatBlock of kernels/products-floats.h. */
int floatThreads(const MatrixView& matrix) {
  const int rowsOfThread = Encoding(matrix.encoding) == Encoding::F8 ? 4 : 8;
  return 2 * floatPanels * floatTiles * rowsOfTile / rowsOfThread;
}

size_t manyFloatsSharedBytes(const MatrixView& matrix) {
  static const size_t bytes[] = {4, 2, 2, 1};
  const size_t panel = (floatStep + 1) * bytes[matrix.encoding] * panelOutputs;
  const size_t inputs = size_t(floatTiles * rowsOfTile) * (floatStep * sizeof(float) + 16);
  const size_t sums = size_t(floatPanels * panelOutputs * floatTiles * rowsOfTile) * sizeof(float);
  return size_t(floatStages) * (floatPanels * panel + inputs) + sums;
}

/** Parts side by side have copies of one norm. */
bool areEqual(const Norm& one, const Norm& other) {
  return &one == &other || (one.kind == other.kind && one.weight == other.weight && one.bias == other.bias);
}

/** The part of a GPU that blocks keep busy. */
double usedPart(int blocks, int multiprocessors) {
  return double(blocks) / double(divideUp(blocks, multiprocessors) * multiprocessors);
}

}  // namespace

Multiplier::Choice Multiplier::choose(const MatrixView& matrix, const Extent& extent) const {
  if (matrix.scaleInputs == 0) return chooseFloats(matrix, extent);
  if (const auto many = chooseMany(matrix, extent)) return *many;
  return chooseFew(matrix, extent);
}

Multiplier::Choice Multiplier::chooseFloats(const MatrixView& matrix, const Extent& extent) const {
  const std::string name = formatName(matrix);
  const size_t shared = manyFloatsSharedBytes(matrix);
  const int x = divideUp(extent.panels, floatPanels), y = divideUp(extent.tiles, floatTiles);
  // A router's matrix is too small to keep a GPU busy with large blocks.
  const bool isMany =
      preferred_.empty() ? extent.tilesOfMember > 2 && x * y >= work_.device.multiprocessors() / 4 : preferred_ == "many";
  if (isMany && shared <= work_.device.sharedBytes()) {
    return {"floats_many_" + name, {x, y, floatThreads(matrix), shared}};
  }
  const int rows = extent.rows <= 2 ? extent.rows : extent.rows <= 4 ? 4 : rowsOfTile, segments = segmentsOf(matrix);
  return {"floats" + std::to_string(rows) + "_" + name,
          {extent.panels, extent.tiles, std::min(divideUp(segments, 4), mostFloatWarps) * 32, partialBytes(segments, rows)}};
}

std::optional<Multiplier::Choice> Multiplier::chooseMany(const MatrixView& matrix, const Extent& extent) const {
  const std::string format = formatName(matrix);
  const size_t shared = manySharedBytes(matrix, manyShape);
  if (!isCommon(format) || shared > work_.device.sharedBytes()) return std::nullopt;
  const int x = divideUp(extent.panels, manyShape.blockPanels()), y = divideUp(extent.tiles, manyShape.blockTiles());
  // Tiles of several members are not multiplied together.
  const double rows =
      double(extent.tiles) / (y * manyShape.blockTiles()) * std::min(1.0, double(extent.tilesOfMember) / manyShape.blockTiles());
  const bool isFaster = manySpeed * rows * usedPart(x * y, work_.device.multiprocessors()) > fewSpeed;
  const bool isMany = preferred_.empty() ? extent.tilesOfMember > 4 && isFaster : preferred_ == "many";
  return isMany ? std::optional<Choice>({"many_" + format, {x, y, manyShape.threads(), shared}}) : std::nullopt;
}

Multiplier::Choice Multiplier::chooseFew(const MatrixView& matrix, const Extent& extent) const {
  const std::string format = formatName(matrix);
  const int atOnce = extent.hasMembers || extent.tiles == 1 ? 1 : extent.tiles == 2 || !isCommon(format) ? 2 : 4;
  const FewShape shape = fewShapes(atOnce);
  const int all = segmentsOf(matrix), blocks = work_.device.multiprocessors() * shape.blocks, rowsOfBlocks = divideUp(extent.tiles, atOnce);
  const bool sharesBlocks = extent.countsTiles && rowsOfBlocks <= blocks;
  const int x = std::clamp(blocks / rowsOfBlocks, 1, extent.panels), panels = divideUp(extent.panels, x);
  // That with the fewest rounds, in which each warp has a segment; of several, that with the fewest chunks, nearly of one length.
  std::optional<FewPlan> best;
  std::pair<int, int> least;
  for (int segments = 1; segments <= shape.segments; segments++) {
    const FewPlan plan = planFew(matrix, atOnce, panels, segments);
    if (plan.panels == 0) continue;
    const int chunks = divideUp(all, segments), batches = divideUp(panels, plan.panels);
    const std::pair<int, int> cost{batches * chunks * divideUp(std::min(panels, plan.panels), plan.panelsAtOnce), chunks};
    if (best && cost >= least) continue;
    best = plan;
    least = cost;
  }
  if (!best) throw std::runtime_error("a multiprocessor has too little shared memory for products");
  best->sharesBlocks = sharesBlocks;
  const Grid grid{sharesBlocks ? blocks : x, sharesBlocks ? 1 : rowsOfBlocks, shape.warps * 32, fewSharedBytes(matrix, atOnce, *best)};
  return {"few" + std::to_string(atOnce) + "_" + format, grid, *best};
}

/** `panels`: of a block. Without panels, where shared memory does not suffice. */
FewPlan Multiplier::planFew(const MatrixView& matrix, int tiles, int panels, int segments) const {
  const bool isOne = segments >= segmentsOf(matrix);
  FewPlan plan{segments, isOne ? 1 : 2, fewShapes(tiles).warps / segments, 0, false};
  const size_t base = fewSharedBytes(matrix, tiles, plan), room = work_.device.sharedBytes() / size_t(fewShapes(tiles).blocks);
  if (base > room) return plan;
  // Sums are kept from chunk to chunk.
  plan.panels = isOne ? panels : std::min(panels, int((room - base) / fewPartialBytes(tiles)));
  return plan;
}

CodesTarget Multiplier::Codes::room(Work& work, size_t tiles, size_t groups) {
  // Products of several tiles at once read those after the last, too.
  const size_t padded = roundUp(groups, groupsOfSegment), units = (tiles + 3) * padded;
  return {codes.room(work, units * 256).as<uint32_t>(), scales.room(work, units * rowsOfTile * sizeof(float)).as<float>(),
          sums.room(work, units * 3 * rowsOfTile * sizeof(float)).as<float>(), int32_t(padded)};
}

CodesTarget Multiplier::nextInput(const Norm& norm) {
  const size_t tiles = size_t(divideUp(work_.rows, rowsOfTile)), groups = size_t(divideUp(work_.stream.size, inputsOfGroup));
  next_ = NextInput{work_.stream.x, &norm, work_.rows, nextCodes_.room(work_, tiles, groups)};
  return next_->codes;
}

bool Multiplier::isNext(const Input& input, int rows, const RowTiles& tiles) const {
  return next_ && input.form == InputForm::Normalized && input.x == next_->x && rows == next_->rows && !input.places &&
         !input.factors && !tiles.tiles && areEqual(*input.norm, *next_->norm);
}

InputView Multiplier::makeInput(const Linear& linear, const Input& input, int rows, const RowTiles& tiles, bool wantsValues) {
  Device& device = work_.device;
  const size_t groups = roundUp(size_t(input.count), inputsOfGroup) / inputsOfGroup;
  const size_t tileCount = tiles.tiles ? size_t(tiles.most) : roundUp(size_t(rows), rowsOfTile) / rowsOfTile;
  const bool codes = linear.readsCodes();
  // Float products read 16 bytes at a time.
  const bool isAligned = reinterpret_cast<uintptr_t>(input.x) % 16 == 0 && input.stride % 4 == 0;
  const bool isCopied = input.form != InputForm::Plain || input.places || input.factors || !isAligned;
  const bool values = (wantsValues || linear.readsValues()) && isCopied;
  InputView view{};
  view.values = input.x;
  view.valueStride = int64_t(input.stride);
  MakeInputArgs args{};
  if (codes) {
    const bool isMade = !values && isNext(input, rows, tiles);
    args.to = isMade ? next_->codes : codes_.room(work_, tileCount, groups);
    view.codes = args.to.codes;
    view.scales = args.to.scales;
    view.sums = args.to.sums;
    view.groups = args.to.groups;
    if (isMade) return view;
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
  const bool isUpAligned = reinterpret_cast<uintptr_t>(input.up) % 16 == 0 && input.upStride % 4 == 0;
  args.isAligned = isAligned && isUpAligned;
  const int pieces = divideUp(codes ? args.to.groups : args.groups, inputGroups);
  // A warp with a whole tile writes scales together, where there are warps enough.
  const bool hasTile = pieces * int(tileCount) >= device.multiprocessors() * inputWarpsOfMultiprocessor;
  args.rowsOfWarp = hasTile ? rowsOfTile : 1;
  args.rowWarps = hasTile || (rows == 1 && !tiles.tiles) ? 1 : rowsOfTile;
  const int blocks = divideUp(pieces * args.rowWarps, inputWarps);
  device.launch("make_input", {blocks, int(tileCount), inputWarps * 32, 0}, args);
  return view;
}

void Multiplier::apply(const Linear& linear, const Input& input, int rows, float* out, size_t outStride, const RowTiles& tiles) {
  if (rows == 0) return;
  const bool adds = work_.adapters.useAny(linear.additions);
  const InputView view = makeInput(linear, input, rows, tiles, adds);
  multiply(linear, view, rows, out, outStride, tiles);
  if (!adds) return;
  for (const Addition& addition : linear.additions) {
    if (work_.adapters.uses(addition.adapter)) add(addition, input, view, rows, tiles, out, outStride);
  }
}

void Multiplier::multiply(const Linear& linear, const InputView& input, int rows, float* out, size_t outStride,
                          const RowTiles& tiles) {
  const int tileCount = tiles.tiles ? tiles.most : divideUp(rows, rowsOfTile);
  // Parts of one format share a launch.
  for (size_t first = 0; first < linear.parts.size();) {
    ProductArgs args{};
    args.input = input;
    args.tiles = tiles.tiles;
    args.tileCount = tiles.count;
    args.sharesInput = tiles.shareInput;
    args.rows = rows;
    args.out = out;
    args.outStride = int64_t(outStride);
    const MatrixView& matrix = work_.weights.matrix(*linear.parts[first].matrix);
    const int members = linear.parts[first].matrix->members();
    int panels = 0;
    for (; first < linear.parts.size() && args.partCount < mostParts; first++) {
      const Linear::Part& part = linear.parts[first];
      const MatrixView& own = work_.weights.matrix(*part.matrix);
      if (!areAlike(own, matrix)) break;
      args.parts[args.partCount++] = {own, work_.weights.vector(part.bias), int64_t(part.offset)};
      panels += own.panels;
    }
    const int tilesOfMember = tiles.tiles ? divideUp(tileCount, members) : tileCount;
    const Extent extent{panels, tiles.tiles ? rowsOfTile : std::min(rows, rowsOfTile), tileCount, tilesOfMember,
                        tiles.tiles != nullptr, tiles.count != nullptr};
    const Choice choice = choose(matrix, extent);
    args.few = choice.few;
    work_.device.launch(choice.kernel.c_str(), choice.grid, args);
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
