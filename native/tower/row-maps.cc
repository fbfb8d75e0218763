// See row-maps.h.

#include "tower/row-maps.h"

#include <algorithm>

namespace chairlift {

InputRows RowMaps::inputOf(const RowView& rows, int count, const std::optional<SizedNorm>& norm, float epsilon) {
  InputRows input{rows.x, rows.stride, rows.size};
  if (!norm) return input;
  scales_.resize(size_t(count));
  pool.forEach("norm scales", count, 16, [&](int begin, int end, int) {
    for (int row = begin; row < end; row++) {
      scales_[size_t(row)] = kernels.rowScale(norm->norm.kind, rows.row(row), rows.size, epsilon);
    }
  });
  input.form = InputForm::Normalized;
  input.norm = &norm->norm;
  input.scales = scales_.data();
  return input;
}

void RowMaps::apply(const TowerLinear& map, const InputRows& input, int count, const RowView& to) {
  if (!map.inputBounds) return multiplier_.apply(map.linear, input, count, to.x, to.stride);
  const RowView held = roomFor(bounded_, count, input.count);
  write(input, count, held);
  hold(held, count, *map.inputBounds);
  multiplier_.apply(map.linear, {held.x, held.stride, held.size}, count, to.x, to.stride);
  hold(to, count, *map.outputBounds);
}

void RowMaps::apply(const TowerMlp& mlp, const InputRows& input, int count, const RowView& to) {
  const RowView inner = roomFor(inner_, count, mlp.up.outputs);
  apply(mlp.up, input, count, inner);
  InputRows activated{inner.x, inner.stride, inner.size};
  activated.form = InputForm::Activated;
  activated.curve = mlp.curve;
  if (mlp.gate) {
    const RowView gates = roomFor(gates_, count, mlp.gate->outputs);
    apply(*mlp.gate, input, count, gates);
    activated.form = InputForm::Gated;
    activated.x = gates.x;
    activated.up = inner.x;
    activated.upStride = inner.stride;
  }
  apply(mlp.down, activated, count, to);
}

void RowMaps::write(const InputRows& input, int count, const RowView& to) {
  pool.forEach("make input", (count + tileRows - 1) / tileRows, 1, [&](int begin, int end, int) {
    for (int tile = begin; tile < end; tile++) {
      const int first = tile * tileRows;
      InputTask task{};
      task.form = input.form;
      task.activation = input.curve.kind;
      task.rows = std::min(tileRows, count - first);
      task.endGroup = int(paddedLength(input.count)) / groupInputs;
      task.weight = input.norm ? input.norm->weight.data() : nullptr;
      task.bias = input.norm ? input.norm->biasOrNull() : nullptr;
      for (int row = 0; row < task.rows; row++) {
        task.x[row] = input.x + size_t(first + row) * input.stride;
        task.up[row] = input.up ? input.up + size_t(first + row) * input.upStride : nullptr;
        if (input.scales) task.scales[row] = input.scales[first + row];
      }
      task.values = to.row(first);
      task.valueStride = to.stride;
      kernels.makeInput(task);
    }
  });
}

void RowMaps::hold(const RowView& rows, int count, Bounds bounds) {
  pool.forEachOne("hold in bounds", count, [&](int index) {
    float* const row = rows.row(index);
    // NaN stays NaN.
    for (int i = 0; i < rows.size; i++) {
      row[i] = row[i] < bounds.least ? bounds.least : row[i] > bounds.most ? bounds.most : row[i];
    }
  });
}

}  // namespace chairlift
