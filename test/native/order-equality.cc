// The order of float sums in plain loops, one output at a time: what the kernels of every table, and every other backend that is to
// have the processor's bits, must add up.

#include <algorithm>

#include "model/tiled-rows.h"
#include "plain-attention.h"

namespace chairlift {

namespace {

/** Adds the totals of segments, addTo(total, unit) by addTo, in order. */
template <class AddTo>
float sumSegments(int units, int unitsPerSegment, const AddTo& addTo) {
  float sum = 0;
  for (int first = 0; first < units; first += unitsPerSegment) {
    float total = 0;
    for (int unit = first; unit < units && unit < first + unitsPerSegment; unit++) total = addTo(total, unit);
    sum = first == 0 ? total : sum + total;
  }
  return sum;
}

void holdMatrix(Equality& equality, const PackedMatrix& matrix, const std::vector<float>& x,
                const std::vector<float>& bias, const std::vector<float>& expected) {
  const int rows = int(x.size()) / matrix.inputs;
  const std::string what = "order of a product of " + std::to_string(rows) + " rows, encoding " +
                           std::to_string(int(matrix.encoding)) + ", " + std::to_string(matrix.inputs) + " inputs";
  equality.holdTo(expected, what, [&](const KernelTable& kernels) {
    const TiledRows input(kernels, x.data(), rows, matrix.inputs);
    std::vector<float> out(size_t(rows) * panelColumns);
    kernels.multiply(matrix, input.view, 0, 1, bias.data(), out.data(), panelColumns);
    return out;
  });
}

void holdFloats(Equality& equality, Random& random, int rows, int inputs) {
  const std::vector<float> weights = random.values(size_t(inputs) * panelColumns), bias = random.values(panelColumns);
  const std::vector<float> x = random.values(size_t(rows) * size_t(inputs));
  PackedMatrix matrix{};
  matrix.encoding = Encoding::F32;
  matrix.inputs = inputs;
  matrix.outputs = panelColumns;
  matrix.panelBytes = weights.size() * sizeof(float);
  matrix.panels = (const uint8_t*)weights.data();
  std::vector<float> expected;
  for (int row = 0; row < rows; row++) {
    for (int column = 0; column < panelColumns; column++) {
      const float sum = sumSegments(inputs, 512, [&](float total, int k) {
        return std::fma(x[size_t(row * inputs + k)], weights[size_t(k * panelColumns + column)], total);
      });
      expected.push_back(sum + bias[size_t(column)]);
    }
  }
  holdMatrix(equality, matrix, x, bias, expected);
}

/** Bytes with a float32 scale and minimum for each group of 32. */
void holdBytes(Equality& equality, Random& random, int rows, int inputs) {
  const std::vector<float> x = random.values(size_t(rows) * size_t(inputs)), bias = random.values(panelColumns);
  PackedMatrix matrix{};
  matrix.encoding = Encoding::Byte;
  matrix.scaleType = ScaleType::F32;
  matrix.hasMinimum = true;
  matrix.scaleInputs = groupInputs;
  matrix.inputs = inputs;
  matrix.outputs = panelColumns;
  for (int chunk = 0; chunk < matrix.chunks(); chunk++) matrix.panelBytes += matrix.chunkBytes(matrix.groupsIn(chunk));
  PageBuffer panel(matrix.panelBytes);
  matrix.panels = panel.as<uint8_t>();
  const size_t wholeChunk = matrix.chunkBytes(chunkGroups);
  const auto chunkOf = [&](int group) { return panel.as<uint8_t>() + size_t(group / chunkGroups) * wholeChunk; };
  const auto codesOf = [&](int group) { return (int8_t*)chunkOf(group) + size_t(group % chunkGroups) * 512; };
  const auto scalesOf = [&](int group) {
    return (float*)(chunkOf(group) + matrix.scalesAt(matrix.groupsIn(group / chunkGroups))) +
           group % chunkGroups * panelColumns;
  };
  const auto minimumsOf = [&](int group) {
    return (float*)(chunkOf(group) + matrix.minimumsAt(matrix.groupsIn(group / chunkGroups))) +
           group % chunkGroups * panelColumns;
  };
  for (int group = 0; group < matrix.groups(); group++) {
    for (int i = 0; i < 512; i++) codesOf(group)[i] = int8_t(random.below(256) - 128);
    for (int column = 0; column < panelColumns; column++) {
      scalesOf(group)[column] = random.value();
      minimumsOf(group)[column] = random.value();
    }
  }

  // Quantized activations as the scalar table makes them, which never pairs groups.
  const TiledRows input(scalarKernels, x.data(), rows, inputs);
  std::vector<float> expected;
  for (int row = 0; row < rows; row++) {
    const int8_t* codes = input.view.codes + size_t(row / tileRows) * input.view.tileGroups * groupCodes;
    const GroupSide* sides = input.view.sides + size_t(row / tileRows) * input.view.tileGroups;
    const int inTile = row % tileRows;
    for (int column = 0; column < panelColumns; column++) {
      const float sum = sumSegments(matrix.groups(), 16, [&](float total, int group) {
        const int8_t* own = codes + size_t(group) * groupCodes + inTile * groupInputs;
        int32_t dot = 0;
        for (int k = 0; k < groupInputs; k++) dot += own[k] * codesOf(group)[k / 4 * 64 + column * 4 + k % 4];
        total = std::fma(float(dot) * scalesOf(group)[column], sides[group].scale[inTile], total);
        return std::fma(minimumsOf(group)[column], sides[group].sum[0][inTile], total);
      });
      expected.push_back(sum + bias[size_t(column)]);
    }
  }
  holdMatrix(equality, matrix, x, bias, expected);
}

/** Sixty-four sums, joined by fours and then by halves. */
template <class AddTo>
float sumRow(int count, const AddTo& addTo) {
  float sums[64] = {};
  for (int i = 0; i < count; i++) sums[i % 64] = addTo(sums[i % 64], i);
  Vec lanes;
  for (int i = 0; i < 16; i++) lanes.lane[i] = (sums[i] + sums[16 + i]) + (sums[32 + i] + sums[48 + i]);
  return sum(lanes);
}

void holdNorms(Equality& equality, Random& random, int count) {
  const std::vector<float> x = random.values(size_t(count));
  for (const NormKind kind : {NormKind::Rms, NormKind::Layer}) {
    float mean = 0;
    if (kind == NormKind::Layer) {
      mean = sumRow(count, [&](float sum, int i) { return sum + x[size_t(i)]; }) / float(count);
    }
    const float squares = sumRow(count, [&](float sum, int i) {
      const float v = x[size_t(i)] - mean;
      return std::fma(v, v, sum);
    });
    const std::vector<float> expected = {mean, 1.0f / std::sqrt(squares / float(count) + 1e-6f)};
    equality.holdTo(expected, "order of a norm of " + std::to_string(count), [&](const KernelTable& kernels) {
      const RowScale scale = kernels.rowScale(kind, x.data(), count, 1e-6f);
      return std::vector<float>{scale.mean, scale.factor};
    });
  }
}

void holdAttended(Equality& equality, Random& random, int position, int window, bool hasSink) {
  const int size = 16, tokens = position + 1, blocks = (tokens + blockTokens - 1) / blockTokens;
  std::vector<float> keys, values;
  const size_t blockBytes = headBlockBytes(KvType::F16, size, false);
  std::vector<uint8_t> memory(blockBytes * size_t(blocks), 0xff);
  // Rounded to halves as they are stored.
  const auto some = [&] { return f16ToFloat(floatToF16(random.value())); };
  for (int token = 0; token < tokens; token++) {
    for (int d = 0; d < size; d++) {
      keys.push_back(some());
      values.push_back(some());
    }
    scalarKernels.storeKv(KvType::F16, &keys[size_t(token * size)], &values[size_t(token * size)], size,
                          token % blockTokens, &memory[size_t(token / blockTokens) * blockBytes]);
  }
  const std::vector<float> query = random.values(size_t(size));
  const std::vector<int32_t> table = tableOf(blocks);
  const float sink = random.value();
  AttentionTask task = taskOf(query, table, memory.data(), blockBytes, position);
  task.window = window;
  task.sinks = hasSink ? &sink : nullptr;
  const int first = window > 0 && position >= window ? position - window + 1 : 0;
  const auto dot = [&](int token) {
    float sum = 0;
    for (int d = 0; d < size; d++) sum = std::fma(query[size_t(d)], keys[size_t(token * size + d)], sum);
    return sum;
  };
  const auto weigh = [&](int block, const float* weights, std::vector<float>& to) {
    for (int token = std::max(block, first); token < block + 32 && token <= position; token++) {
      for (int d = 0; d < size; d++) {
        to[size_t(d)] = std::fma(weights[token - block], values[size_t(token * size + d)], to[size_t(d)]);
      }
    }
  };
  const Softmax state = attended(size, dot, weigh, task.scale, task.sinks, first, position);
  const std::string what = "order of attention at " + std::to_string(position) + " over " + std::to_string(window);
  equality.holdTo(divided(state.accumulator, state.total), what,
                  [&](const KernelTable& kernels) { return attendedBy(kernels, KvType::F16, task); });
}

}  // namespace

void holdOrder(Equality& equality, Random& random) {
  for (const int inputs : {32, 512, 544, 1024 + 32, 2880}) {
    for (const int rows : {1, 3, 7, 20}) {
      holdFloats(equality, random, rows, inputs);
      holdBytes(equality, random, rows, inputs);
    }
  }
  for (const int count : {1, 15, 16, 63, 64, 65, 200, 576, 2047}) holdNorms(equality, random, count);
  for (const int position : {0, 40, 511, 512, 1023, 1024, 1300}) {
    for (const int window : {0, 33, 520}) {
      for (const bool hasSink : {false, true}) holdAttended(equality, random, position, window, hasSink);
    }
  }
}

}  // namespace chairlift
