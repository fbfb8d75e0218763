// See layers/short-conv.h.

#include "layers/short-conv.h"

#include "cuda/layers/causal-conv.h"
#include "cuda/layers/registry.h"

namespace chairlift {
namespace cuda {

void launch(const ShortConv& body, const Input& input, Work& work, float* out) {
  const size_t stride = body.projectedStride(), mixedStride = paddedLength(body.size);
  float* const projected = work.scratch("projected", stride);
  float* const mixed = work.scratch("mixed", mixedStride);
  float* const value = projected + body.valueAt();
  const int64_t projectedRow = int64_t(stride), mixedRow = int64_t(mixedStride);
  work.multiplier.apply(body.projection, input, work.rows, projected, stride);
  const MultiplyRowsArgs before{value, projectedRow, projected, projectedRow, value, projectedRow, body.size};
  work.device.launch("multiply_rows", {work.rows, 1, 256, 0}, before);
  convolveRows(body.convolution, body.layout(), body.state, value, stride, mixed, mixedStride, work);
  const MultiplyRowsArgs after{mixed, mixedRow, projected + body.afterAt(), projectedRow, mixed, mixedRow, body.size};
  work.device.launch("multiply_rows", {work.rows, 1, 256, 0}, after);
  work.multiplier.apply(body.output, {mixed, mixedStride, body.size}, work.rows, out, work.stream.stride);
}

}  // namespace cuda
}  // namespace chairlift
