// See altup.h.

#include "cuda/layers/altup.h"

#include "cuda/layers/registry.h"

namespace chairlift {
namespace cuda {

namespace {

constexpr size_t sumBytes = 64 * sizeof(float);

}  // namespace

DeviceAltUp::DeviceAltUp(const AltUpMaps& maps, Work& work) : maps_(maps), work_(work) {
  const size_t stride = work.stream.stride, count = maps.spread.size() + 1;
  streams_.first = work.stream.x;
  streams_.others = work.scratch("altUpOthers", size_t(work.rows) * (count - 1), stride);
  streams_.predicted = work.scratch("altUpPredicted", size_t(work.rows) * count, stride);
  streams_.stride = int64_t(stride);
  streams_.streamStride = int64_t(size_t(work.rows) * stride);
  streams_.count = int32_t(count);
  streams_.size = work.stream.size;
  streams_.epsilon = work.normEpsilon;
  for (size_t kind = 0; kind < 2; kind++) streams_.scales[kind] = work.stream.scales[kind];
}

void DeviceAltUp::spread() {
  for (size_t i = 0; i < maps_.spread.size(); i++) {
    float* const made = streams_.others + int64_t(i) * streams_.streamStride;
    work_.multiplier.apply(maps_.spread[i], work_.stream.rows(), work_.rows, made, work_.stream.stride);
    const ScaleLikeArgs args{made, streams_.first, nullptr, streams_.stride, streams_.size};
    work_.device.launch("scale_like", {work_.rows, 1, 256, sumBytes}, args);
  }
}

void DeviceAltUp::predict(const LayerAltUp& layer) {
  const size_t stride = paddedLength(streams_.count * streams_.count);
  streams_.coefficients = coefficients(layer, layer.prediction, stride);
  streams_.coefficientStride = int64_t(stride);
  work_.device.launch("predict_streams", {work_.rows, 1, 256, sumBytes}, streams_);
}

void DeviceAltUp::correct(const LayerAltUp& layer) {
  const size_t stride = paddedLength(streams_.count);
  streams_.coefficients = coefficients(layer, layer.correction, stride);
  streams_.coefficientStride = int64_t(stride);
  work_.device.launch("correct_streams", {work_.rows, 1, 256, sumBytes}, streams_);
}

/** While `perLayer` runs, what it reads stands in for the first stream. */
void DeviceAltUp::addPerLayer(const LayerAltUp& layer) {
  CopyStreamArgs copy{};
  copy.from = streams_.first;
  copy.to = work_.scratch("altUpInput", work_.stream.stride);
  copy.stride = streams_.stride;
  copy.size = streams_.size;
  copy.factors = work_.weights.vector(layer.perLayerScale);
  copy.epsilon = streams_.epsilon;
  for (size_t kind = 0; kind < 2; kind++) copy.scales[kind] = streams_.scales[kind];
  work_.device.launch("copy_stream", {work_.rows, 1, 256, sumBytes}, copy);
  float* const output = work_.scratch("altUpOutput", work_.stream.stride);
  const Part& part = layer.perLayer;
  work_.stream.x = copy.to;
  launchBody(*part.body, part.input ? work_.stream.normalized(*part.input) : work_.stream.rows(), work_, output);
  work_.stream.x = streams_.first;
  const AddToStreamsArgs args{streams_, output, work_.maybeNorm(part.output)};
  work_.device.launch("add_to_streams", {work_.rows, 1, 256, size_t(streams_.size) * sizeof(float) + sumBytes}, args);
}

void DeviceAltUp::gather() {
  // The first prediction takes the sum.
  CopyStreamArgs copy{};
  copy.from = streams_.first;
  copy.to = streams_.predicted;
  copy.stride = streams_.stride;
  copy.size = streams_.size;
  work_.device.launch("copy_stream", {work_.rows, 1, 256, sumBytes}, copy);
  float* const back = work_.scratch("altUpOutput", work_.stream.stride);
  for (size_t i = 0; i < maps_.gather.size(); i++) {
    const float* const other = streams_.others + int64_t(i) * streams_.streamStride;
    work_.multiplier.apply(maps_.gather[i], {other, work_.stream.stride, streams_.size}, work_.rows, back, work_.stream.stride);
    const ScaleLikeArgs args{back, streams_.first, streams_.predicted, streams_.stride, streams_.size};
    work_.device.launch("scale_like", {work_.rows, 1, 256, sumBytes}, args);
  }
  work_.device.launch("average_streams", {work_.rows, 1, 256, sumBytes}, streams_);
}

const float* DeviceAltUp::coefficients(const LayerAltUp& layer, const Linear& linear, size_t stride) {
  const int features = streams_.count;
  const size_t featureStride = paddedLength(features);
  float* const made = work_.scratch("altUpFeatures", featureStride);
  float* const all = work_.scratch("altUpCoefficients", stride);
  work_.multiplier.apply(layer.features, work_.stream.normalized(layer.norm), work_.rows, made, featureStride);
  // With a cap of 1: tanh.
  const CapRowsArgs cap{made, int64_t(featureStride), features, 1.0f};
  work_.device.launch("cap_rows", {work_.rows, 1, 32, 0}, cap);
  work_.multiplier.apply(linear, {made, featureStride, features}, work_.rows, all, stride);
  return all;
}

}  // namespace cuda
}  // namespace chairlift
