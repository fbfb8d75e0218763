// See view-maps.h.

#include "cuda/tower/view-maps.h"

namespace chairlift {
namespace cuda {

namespace {

constexpr int mapThreads = 256;

}  // namespace

DeviceRows ViewMaps::room(const char* name, int count, int size) {
  const size_t stride = paddedLength(size);
  return {work->scratch(name, size_t(count), stride), stride, size};
}

NormArgs ViewMaps::norm(const std::optional<SizedNorm>& norm, float epsilon) {
  if (!norm) return {};
  return {int32_t(norm->norm.kind), epsilon, vector(norm->norm.weight), vector(norm->norm.bias)};
}

Input ViewMaps::inputOf(const DeviceRows& rows, int count, const std::optional<SizedNorm>& norm, float epsilon) {
  Input input{rows.x, rows.stride, rows.size};
  if (!norm) return input;
  auto* scales = work->scratchOf<Scale>("scales", size_t(count));
  MeasureArgs args{rows.x, int64_t(rows.stride), rows.size, epsilon, {}};
  args.scales[size_t(norm->norm.kind)] = scales;
  work->device.launch("measure_rows", {count, 1, mapThreads, 256}, args);
  input.form = InputForm::Normalized;
  input.norm = &norm->norm;
  input.scales = scales;
  return input;
}

Input ViewMaps::activated(const DeviceRows& rows, const DeviceRows* up, const Curve& curve, int count) {
  Input input{rows.x, rows.stride, rows.size};
  // The kernel that makes inputs knows the activations of text models.
  if (curve.kind == Activation::QuickGelu) {
    ChangeRowsArgs args{};
    args.kind = changeQuickGelu;
    if (up) {
      args.up = up->x;
      args.upStride = int64_t(up->stride);
    }
    change(args, rows, count);
    return input;
  }
  input.form = up ? InputForm::Gated : InputForm::Activated;
  input.curve = curve;
  if (up) {
    input.up = up->x;
    input.upStride = up->stride;
  }
  return input;
}

void ViewMaps::apply(const TowerLinear& map, const Input& input, int count, const DeviceRows& to) {
  if (!map.inputBounds) return work->multiplier.apply(map.linear, input, count, to.x, to.stride);
  const DeviceRows held = room("held", count, input.count);
  write(input, count, held);
  hold(held, count, *map.inputBounds);
  work->multiplier.apply(map.linear, {held.x, held.stride, held.size}, count, to.x, to.stride);
  hold(to, count, *map.outputBounds);
}

void ViewMaps::apply(const TowerMlp& mlp, const Input& input, int count, const DeviceRows& to) {
  const int size = mlp.up.outputs;
  DeviceRows inner = room("inner", count, mlp.gate ? 2 * int(paddedLength(size)) : size);
  inner.size = size;
  const DeviceRows gates{inner.x + paddedLength(size), inner.stride, size};
  if (const Linear* both = tower_.joined(mlp)) {
    work->multiplier.apply(*both, input, count, inner.x, inner.stride);
  } else {
    apply(mlp.up, input, count, inner);
    if (mlp.gate) apply(*mlp.gate, input, count, gates);
  }
  apply(mlp.down, mlp.gate ? activated(gates, &inner, mlp.curve, count) : activated(inner, nullptr, mlp.curve, count), count, to);
}

void ViewMaps::write(const Input& input, int count, const DeviceRows& to) {
  MakeInputArgs args{};
  args.form = int32_t(input.form);
  args.activation = int32_t(input.curve.kind);
  args.x = input.x;
  args.stride = int64_t(input.stride);
  args.up = input.up;
  args.upStride = int64_t(input.upStride);
  args.scales = input.scales;
  if (input.norm) {
    args.weight = vector(input.norm->weight);
    args.bias = vector(input.norm->bias);
  }
  args.rows = count;
  args.groups = int32_t(paddedLength(input.count)) / inputsOfGroup;
  args.rowsOfWarp = 1;
  args.rowWarps = rowsOfTile;
  args.isAligned = true;
  args.values = to.x;
  args.valueStride = int64_t(to.stride);
  const int blocks = divideUp(divideUp(args.groups, inputGroups) * rowsOfTile, inputWarps);
  work->device.launch("make_input", {blocks, divideUp(count, rowsOfTile), inputWarps * 32, 0}, args);
}

void ViewMaps::change(const ChangeRowsArgs& how, const DeviceRows& rows, int count) {
  ChangeRowsArgs args = how;
  args.x = rows.x;
  args.stride = int64_t(rows.stride);
  args.size = rows.size;
  work->device.launch("change_rows", {count, divideUp(rows.size, mapThreads), mapThreads, 0}, args);
}

void ViewMaps::hold(const DeviceRows& rows, int count, Bounds bounds) {
  ChangeRowsArgs args{};
  args.kind = changeHold;
  args.first = bounds.least;
  args.second = bounds.most;
  change(args, rows, count);
}

}  // namespace cuda
}  // namespace chairlift
