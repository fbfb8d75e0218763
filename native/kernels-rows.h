// Kernels over single rows of activations: norm, quantization, gating, rotation.
// Include after the ISA's vec-*.h and vec-math.h.
#pragma once

#include "kernels.h"

namespace {

using namespace chairlift;

inline int paddedCount(int count) { return (count + 15) & ~15; }

void rmsNorm(const float* x, const float* weight, float* to, int count, float epsilon) {
  Vec squares = Vec::zero();
  const int padded = paddedCount(count);
  for (int i = 0; i < padded; i += 16) {
    const Vec v = Vec::load(x + i);
    squares = fma(v, v, squares);
  }
  const float factor = 1.0f / __builtin_sqrtf(sum(squares) / float(count) + epsilon);
  const Vec factors = Vec::set(factor);
  for (int i = 0; i < padded; i += 16) {
    (Vec::load(x + i) * factors * Vec::load(weight + i)).store(to + i);
  }
}

void quantize(const float* x, int count, int8_t* codes, float* scales, float* sums) {
  for (int group = 0; group < count / groupInputs; group++) {
    const Vec low = Vec::load(x + group * groupInputs);
    const Vec high = Vec::load(x + group * groupInputs + 16);
    const float largest = maximum(max(abs(low), abs(high)));
    // A maximum loses NaN; x - x is NaN where x is not finite, and so the scale carries it on.
    const float poison = sum((low - low) + (high - high));
    const float scale = largest / 127.0f;
    const Vec inverse = Vec::set(scale > 1e-30f ? 1.0f / scale : 0.0f);
    int8_t* to = codes + group * groupInputs;
    (low * inverse).storeI8(to);
    (high * inverse).storeI8(to + 16);
    scales[group] = scale + poison;
    float* sumsOfGroup = sums + group * groupSums;
    sumsOfGroup[0] = float(Vec::sumI8(to));
    sumsOfGroup[1] = float(Vec::sumI8(to + 16));
    sumsOfGroup[2] = sumsOfGroup[0] + sumsOfGroup[1];
  }
}

void gateUp(Activation activation, float* gate, const float* up, int count) {
  const int padded = paddedCount(count);
  for (int i = 0; i < padded; i += 16) {
    const Vec g = Vec::load(gate + i);
    const Vec a = activation == Activation::Silu ? silu(g) : geluTanh(g);
    (a * Vec::load(up + i)).store(gate + i);
  }
}

void rotate(float* head, const float* cosines, const float* sines, int half) {
  for (int i = 0; i < half; i++) {
    const float a = head[i], b = head[i + half];
    head[i] = a * cosines[i] - b * sines[i];
    head[i + half] = b * cosines[i] + a * sines[i];
  }
}

void addTo(float* x, const float* delta, int count) {
  for (int i = 0; i < paddedCount(count); i += 16) (Vec::load(x + i) + Vec::load(delta + i)).store(x + i);
}

void softcapInPlace(float* x, int count, float cap) {
  int i = 0;
  for (; i + 16 <= count; i += 16) softcap(Vec::load(x + i), cap).store(x + i);
  if (i == count) return;
  float tail[16] = {};
  memcpy(tail, x + i, size_t(count - i) * sizeof(float));
  softcap(Vec::load(tail), cap).store(tail);
  memcpy(x + i, tail, size_t(count - i) * sizeof(float));
}

}  // namespace
