// See altup.h.

#include "layers/altup.h"

#include <algorithm>

namespace chairlift {

namespace {

// The root of 1e-5: a row that is scaled counts as no smaller.
constexpr float leastRoot = 3.16227766e-3f;

}  // namespace

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
    work_.pool.forEachOne(rows, [&](int row) { scaleAs(rowOf(i + 1, row), work_.stream.row(row)); });
  }
}

void AltUp::predict(const AltUpMixing& mixing) {
  const size_t stride = paddedLength(int(count() * count()));
  const float* const all = coefficients(mixing, mixing.prediction, stride);
  const int size = work_.stream.size;
  work_.pool.forEachOne(work_.batch.count(), [&](int row) {
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

void AltUp::correct(const AltUpMixing& mixing) {
  const size_t stride = paddedLength(int(count()));
  const float* const all = coefficients(mixing, mixing.correction, stride);
  float* const changes = work_.gathered.rows(size_t(work_.batch.count()), work_.stream.stride);
  const int size = work_.stream.size;
  work_.pool.forEachOne(work_.batch.count(), [&](int row) {
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

void AltUp::tell(int row, const float* news) {
  for (size_t i = 1; i < count(); i++) work_.kernels.addScaled(rowOf(i, row), news, 1.0f, work_.stream.size);
}

void AltUp::gather() {
  const int rows = work_.batch.count(), size = work_.stream.size;
  const size_t stride = work_.stream.stride;
  float* const back = work_.gathered.rows(size_t(rows), stride);
  work_.pool.forEachOne(rows, [&](int row) { std::copy_n(work_.stream.row(row), size, predictedRow(0, row)); });
  for (size_t i = 0; i < others_.size(); i++) {
    work_.multiplier.apply(maps_.gather[i], {others_[i].data(), stride, size}, rows, back, stride);
    work_.pool.forEachOne(rows, [&](int row) {
      float* const own = back + size_t(row) * stride;
      scaleAs(own, work_.stream.row(row));
      work_.kernels.addScaled(predictedRow(0, row), own, 1.0f, size);
    });
  }
  work_.pool.forEachOne(rows, [&](int row) {
    const float* const sum = predictedRow(0, row);
    for (int i = 0; i < size; i++) work_.stream.row(row)[i] = sum[i] / float(count());
    work_.measure(row);
  });
}

const float* AltUp::coefficients(const AltUpMixing& mixing, const Linear& linear, size_t stride) {
  const int rows = work_.batch.count(), features = int(count());
  const size_t featureStride = paddedLength(features);
  float* const made = work_.inner.rows(size_t(rows), featureStride);
  float* const all = work_.scores.rows(size_t(rows), stride);
  work_.multiplier.apply(mixing.features, work_.stream.behind(mixing.norm), rows, made, featureStride);
  // With a cap of 1 that is the hyperbolic tangent.
  work_.pool.forEachOne(rows, [&](int row) {
    work_.kernels.softcapInPlace(made + size_t(row) * featureStride, features, 1.0f);
  });
  work_.multiplier.apply(linear, {made, featureStride, features}, rows, all, stride);
  return all;
}

/** To the root mean square of another row. */
void AltUp::scaleAs(float* values, const float* like) const {
  const auto rootOf = [&](const float* row) {
    return 1.0f / work_.kernels.rowScale(NormKind::Rms, row, work_.stream.size, 0).factor;
  };
  const float factor = rootOf(like) / std::max(rootOf(values), leastRoot);
  for (int i = 0; i < work_.stream.size; i++) values[i] *= factor;
}

}  // namespace chairlift
