// See altup.h.

#include "layers/altup.h"

#include <algorithm>

#include "model/reader.h"

namespace chairlift {

namespace {

// The root of 1e-5, the least root mean square of a row that is scaled.
constexpr float leastRoot = 3.16227766e-3f;

}  // namespace

AltUpMaps readAltUp(const Record& from, const Reader& reader) {
  const int hidden = reader.model.hiddenSize;
  AltUpMaps read;
  for (const Record& linear : from.list("spread")) read.spread.push_back(reader.linear(linear, hidden, hidden));
  for (const Record& linear : from.list("gather")) read.gather.push_back(reader.linear(linear, hidden, hidden));
  require(read.spread.size() == read.gather.size(), "AltUp streams that are not merged");
  return read;
}

LayerAltUp readLayerAltUp(const Record& from, Reader& reader) {
  const ModelParts& model = reader.model;
  require(model.altUp.has_value(), "an AltUp layer in a model without AltUp");
  const int hidden = model.hiddenSize, count = int(model.altUp->spread.size()) + 1;
  LayerAltUp read;
  read.norm = readNorm(from.object("norm"), hidden);
  read.features = reader.linear(from.object("features"), count, hidden);
  read.prediction = reader.linear(from.object("prediction"), count * count, count);
  read.correction = reader.linear(from.object("correction"), count, count);
  read.perLayer = reader.part(from.object("perLayer"));
  read.perLayerScale = from.maybeFloats("perLayerScale", size_t(hidden));
  return read;
}

AltUp::AltUp(const AltUpMaps& maps, Workspace& work)
    : maps_(maps), work_(work), others_(maps.spread.size()), predicted_(maps.spread.size() + 1) {}

float* AltUp::rowOf(size_t stream, int row) const {
  return stream == 0 ? work_.stream.row(row) : others_[stream - 1].data() + size_t(row) * work_.stream.stride;
}

float* AltUp::predictedRow(size_t stream, int row) const {
  return predicted_[stream].data() + size_t(row) * work_.stream.stride;
}

void AltUp::spread() {
  const int rows = work_.batch.count();
  const size_t stride = work_.stream.stride;
  for (RowBuffer& predicted : predicted_) predicted.rows(size_t(rows), stride);
  for (size_t i = 0; i < others_.size(); i++) {
    float* const made = others_[i].rows(size_t(rows), stride);
    work_.multiplier.apply(maps_.spread[i], work_.stream.rows(), rows, made, stride);
    work_.pool.forEachOne("spread streams", rows, [&](int row) { scaleAs(rowOf(i + 1, row), work_.stream.row(row)); });
  }
}

void AltUp::predict(const LayerAltUp& layer) {
  const size_t stride = paddedLength(int(count() * count()));
  const float* const all = coefficients(layer, layer.prediction, stride);
  const int size = work_.stream.size;
  work_.pool.forEachOne("predict streams", work_.batch.count(), [&](int row) {
    const float* own = all + size_t(row) * stride;
    for (size_t i = 0; i < count(); i++) {
      float* const prediction = predictedRow(i, row);
      std::copy_n(rowOf(i, row), size, prediction);
      for (size_t j = 0; j < count(); j++) work_.kernels.addScaled(prediction, rowOf(j, row), *own++, size);
    }
    std::copy_n(predictedRow(0, row), size, work_.stream.row(row));
    work_.measure(row);
  });
}

void AltUp::correct(const LayerAltUp& layer) {
  const size_t stride = paddedLength(int(count()));
  const float* const all = coefficients(layer, layer.correction, stride);
  float* const changes = work_.gathered.rows(size_t(work_.batch.count()), work_.stream.stride);
  const int size = work_.stream.size;
  work_.pool.forEachOne("correct streams", work_.batch.count(), [&](int row) {
    float* const change = changes + size_t(row) * work_.stream.stride;
    std::copy_n(work_.stream.row(row), size, change);
    work_.kernels.addScaled(change, predictedRow(0, row), -1.0f, size);
    for (size_t i = 0; i < count(); i++) {
      std::copy_n(predictedRow(i, row), size, rowOf(i, row));
      work_.kernels.addScaled(rowOf(i, row), change, 1.0f + all[size_t(row) * stride + i], size);
    }
    work_.measure(row);
  });
}

/** While `perLayer` runs, what it reads stands in for the first stream. */
void AltUp::addPerLayer(const LayerAltUp& layer) {
  const int rows = work_.batch.count(), size = work_.stream.size;
  const size_t stride = work_.stream.stride;
  float* const first = work_.stream.x;
  const std::vector<float>& factors = layer.perLayerScale;
  work_.stream.x = perLayerInput_.rows(size_t(rows), stride);
  work_.pool.forEachOne("per-layer input", rows, [&](int row) {
    const float* from = first + size_t(row) * stride;
    float* const to = work_.stream.row(row);
    for (int i = 0; i < size; i++) to[i] = factors.empty() ? from[i] : from[i] * factors[size_t(i)];
    work_.measure(row);
  });
  float* const output = perLayerOutput_.rows(size_t(rows), stride);
  layer.perLayer.run(work_, output);
  work_.stream.x = first;
  work_.pool.forEachOne("add per-layer output", rows, [&](int row) {
    float* const own = output + size_t(row) * stride;
    if (layer.perLayer.output) layer.perLayer.output->apply(work_.kernels, own, size, work_.normEpsilon);
    for (size_t i = 1; i < count(); i++) work_.kernels.addScaled(rowOf(i, row), own, 1.0f, size);
    work_.measure(row);
  });
}

void AltUp::gather() {
  const int rows = work_.batch.count(), size = work_.stream.size;
  const size_t stride = work_.stream.stride;
  float* const back = work_.gathered.rows(size_t(rows), stride);
  work_.pool.forEachOne("gather streams", rows, [&](int row) { std::copy_n(work_.stream.row(row), size, predictedRow(0, row)); });
  for (size_t i = 0; i < others_.size(); i++) {
    work_.multiplier.apply(maps_.gather[i], {others_[i].data(), stride, size}, rows, back, stride);
    work_.pool.forEachOne("gather streams", rows, [&](int row) {
      float* const own = back + size_t(row) * stride;
      scaleAs(own, work_.stream.row(row));
      work_.kernels.addScaled(predictedRow(0, row), own, 1.0f, size);
    });
  }
  work_.pool.forEachOne("gather streams", rows, [&](int row) {
    const float* const sum = predictedRow(0, row);
    for (int i = 0; i < size; i++) work_.stream.row(row)[i] = sum[i] / float(count());
    work_.measure(row);
  });
}

const float* AltUp::coefficients(const LayerAltUp& layer, const Linear& linear, size_t stride) {
  const int rows = work_.batch.count(), features = int(count());
  const size_t featureStride = paddedLength(features);
  float* const made = work_.inner.rows(size_t(rows), featureStride);
  float* const all = work_.scores.rows(size_t(rows), stride);
  work_.multiplier.apply(layer.features, work_.stream.normalized(layer.norm), rows, made, featureStride);
  // With a cap of 1: tanh.
  work_.pool.forEachOne("cap coefficients", rows, [&](int row) {
    work_.kernels.softcapInPlace(made + size_t(row) * featureStride, features, 1.0f);
  });
  work_.multiplier.apply(linear, {made, featureStride, features}, rows, all, stride);
  return all;
}

/** Scales a row to the root mean square of another. */
void AltUp::scaleAs(float* values, const float* like) const {
  const auto rootOf = [&](const float* row) {
    return 1.0f / work_.kernels.rowScale(NormKind::Rms, row, work_.stream.size, 0).factor;
  };
  const float factor = rootOf(like) / std::max(rootOf(values), leastRoot);
  for (int i = 0; i < work_.stream.size; i++) values[i] *= factor;
}

}  // namespace chairlift
