// See layers/laurel.h.

#include "layers/laurel.h"

#include "cuda/layers/registry.h"

namespace chairlift {
namespace cuda {

void launch(const Laurel& body, const Input& input, Work& work, float* out) {
  const size_t innerStride = paddedLength(body.rank), stride = work.stream.stride;
  float* const inner = work.scratch("inner", innerStride);
  work.multiplier.apply(body.down, input, work.rows, inner, innerStride);
  work.multiplier.apply(body.up, {inner, innerStride, body.rank}, work.rows, out, stride);
  FinishLaurelArgs args{};
  args.out = out;
  args.outStride = int64_t(stride);
  args.norm = work.norm(body.norm);
  args.x = input.x;
  args.stride = int64_t(input.stride);
  args.size = work.stream.size;
  if (input.form == InputForm::Normalized) {
    args.scales = input.scales;
    args.inputNorm = work.norm(*input.norm);
  }
  work.device.launch("finish_laurel", {work.rows, 1, 256, (size_t(args.size) + 64) * sizeof(float)}, args);
}

}  // namespace cuda
}  // namespace chairlift
