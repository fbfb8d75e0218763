// Kernels over single rows of activations: norms, activation, quantization, rotation.
// Include after the ISA's vec-*.h and vec-math.h.
#pragma once

#include "kernels/kernels.h"
#include "kernels/repeat.h"

namespace {

using namespace chairlift;

/** The first `count` lanes; the others are zero. */
inline Vec loadFirst(const float* from, int count) {
  if (count >= 16) return Vec::load(from);
  float lanes[16] = {};
  memcpy(lanes, from, size_t(count) * sizeof(float));
  return Vec::load(lanes);
}

inline void storeFirst(Vec v, float* to, int count) {
  if (count >= 16) return v.store(to);
  float lanes[16];
  v.store(lanes);
  memcpy(to, lanes, size_t(count) * sizeof(float));
}

// Vectors of a row that are summed apart.
constexpr int rowSums = 4;

/**
 * The sum of a row's `count` values: add(sums, i) adds those of the vector from i on. Vectors go to the sums in turn, so that each
 * addition need not wait for the one before, and threads of a GPU can share a row.
 */
template <class Add>
CHAIRLIFT_INLINE float sumRow(int count, const Add& add) {
  constexpr int piece = rowSums * 16;
  Vec sums[rowSums];
  repeat<rowSums>([&](int j) CHAIRLIFT_LAMBDA { sums[j] = Vec::zero(); });
  int i = 0;
  for (; i + piece <= count; i += piece) {
    repeat<rowSums>([&](int j) CHAIRLIFT_LAMBDA { sums[j] = add(sums[j], i + j * 16); });
  }
  repeat<rowSums>([&](int j) CHAIRLIFT_LAMBDA {
    if (i + j * 16 < count) sums[j] = add(sums[j], i + j * 16);
  });
  return sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

RowScale rowScale(NormKind kind, const float* x, int count, float epsilon) {
  float mean = 0;
  if (kind == NormKind::Layer) {
    const float values = sumRow(count, [&](Vec sums, int i) CHAIRLIFT_LAMBDA {
      return sums + loadFirst(x + i, count - i);
    });
    mean = values / float(count);
  }
  const Vec means = Vec::set(mean);
  const float squares = sumRow(count, [&](Vec sums, int i) CHAIRLIFT_LAMBDA {
    // Lanes past the end are as far from a mean as zero is.
    const Vec v = select(0, count - i, loadFirst(x + i, count - i) - means, Vec::zero());
    return fma(v, v, sums);
  });
  return {mean, 1.0f / __builtin_sqrtf(squares / float(count) + epsilon)};
}

inline Vec normalized(Vec x, RowScale scale, const float* weight, const float* bias, int i) {
  const Vec v = (x - Vec::set(scale.mean)) * Vec::set(scale.factor) * Vec::load(weight + i);
  return bias ? v + Vec::load(bias + i) : v;
}

void normalize(const float* x, RowScale scale, const float* weight, const float* bias, float* to, int count) {
  for (int i = 0; i < count; i += 16) {
    storeFirst(normalized(loadFirst(x + i, count - i), scale, weight, bias, i), to + i, count - i);
  }
}

inline void quantizeGroup(Vec low, Vec high, int8_t* to, GroupSide& side, int row) {
  const float scale = largestMagnitude(low, high) / 127.0f;
  const Vec inverse = Vec::set(scale > 1e-30f ? 1.0f / scale : 0.0f);
  (low * inverse).storeI8(to);
  (high * inverse).storeI8(to + 16);
  const int32_t sums[2] = {Vec::sumI8(to), Vec::sumI8(to + 16)};
  // Infinity becomes NaN, which no sum hides.
  side.scale[row] = scale + (scale - scale);
  side.offset[0][row] = -128 * (sums[0] + sums[1]);
  side.sum[0][row] = side.scale[row] * float(sums[0] + sums[1]);
  for (int half = 0; half < 2; half++) {
    side.offset[1 + half][row] = -128 * sums[half];
    side.sum[1 + half][row] = side.scale[row] * float(sums[half]);
  }
}

inline int8_t* placeCodes(const InputTask& task, int row, int group) {
  int8_t* groupStart = task.codes + size_t(group) * groupCodes;
  if (!task.paired) return groupStart + row * groupInputs;
  int8_t* line = groupStart + row * 2 * groupInputs;
  memset(line, 0, 2 * groupInputs);
  return line + group % 2 * groupInputs;
}

/** Rows whose values valueAt(row, i) gives, 16 at a time. */
template <class ValueAt>
CHAIRLIFT_INLINE void makeRows(const InputTask& task, const ValueAt& valueAt) {
  for (int row = 0; row < task.rows; row++) {
    for (int group = task.firstGroup; group < task.endGroup; group++) {
      const int i = group * groupInputs;
      Vec low = valueAt(row, i), high = valueAt(row, i + 16);
      if (task.factors) {
        low = low * Vec::set(task.factors[row]);
        high = high * Vec::set(task.factors[row]);
      }
      if (task.values) {
        low.store(task.values + size_t(row) * task.valueStride + i);
        high.store(task.values + size_t(row) * task.valueStride + i + 16);
      }
      if (task.tile) {
        float* const to = task.tile + size_t(group * task.rows + row) * groupInputs;
        low.store(to);
        high.store(to + 16);
      }
      if (task.codes) quantizeGroup(low, high, placeCodes(task, row, group), task.sides[group], row);
    }
  }
}

template <class Curve>
CHAIRLIFT_INLINE void makeCurved(const InputTask& task, const Curve& curve) {
  if (task.form == InputForm::Activated) {
    makeRows(task, [&](int row, int i) CHAIRLIFT_LAMBDA { return curve(Vec::load(task.x[row] + i)); });
  } else {
    makeRows(task, [&](int row, int i) CHAIRLIFT_LAMBDA {
      return curve(Vec::load(task.x[row] + i)) * Vec::load(task.up[row] + i);
    });
  }
}

void makeInput(const InputTask& task) {
  if (task.form == InputForm::Plain) {
    return makeRows(task, [&](int row, int i) CHAIRLIFT_LAMBDA { return Vec::load(task.x[row] + i); });
  }
  if (task.form == InputForm::Normalized) {
    return makeRows(task, [&](int row, int i) CHAIRLIFT_LAMBDA {
      return normalized(Vec::load(task.x[row] + i), task.scales[row], task.weight, task.bias, i);
    });
  }
  switch (task.activation) {
    case Activation::Silu: return makeCurved(task, [](Vec x) CHAIRLIFT_LAMBDA { return silu(x); });
    case Activation::GeluTanh: return makeCurved(task, [](Vec x) CHAIRLIFT_LAMBDA { return geluTanh(x); });
    case Activation::Gelu: return makeCurved(task, [](Vec x) CHAIRLIFT_LAMBDA { return gelu(x); });
    case Activation::Sigmoid: return makeCurved(task, [](Vec x) CHAIRLIFT_LAMBDA { return sigmoid(x); });
    case Activation::QuickGelu:
      return makeCurved(task, [](Vec x) CHAIRLIFT_LAMBDA { return x * sigmoid(x * Vec::set(1.702f)); });
    case Activation::Clamped:
      return makeRows(task, [&](int row, int i) CHAIRLIFT_LAMBDA {
        return clamped(Vec::load(task.x[row] + i), Vec::load(task.up[row] + i), task.limit, task.slope);
      });
  }
}

void rotate(float* head, const float* cosines, const float* sines, int half) {
  for (int i = 0; i < half; i++) {
    const float a = head[i], b = head[i + half];
    head[i] = a * cosines[i] - b * sines[i];
    head[i + half] = b * cosines[i] + a * sines[i];
  }
}

void addScaled(float* x, const float* delta, float factor, int count) {
  const Vec factors = Vec::set(factor);
  const int whole = count / 16 * 16;
  for (int i = 0; i < whole; i += 16) fma(Vec::load(delta + i), factors, Vec::load(x + i)).store(x + i);
  if (whole == count) return;
  const int rest = count - whole;
  storeFirst(fma(loadFirst(delta + whole, rest), factors, loadFirst(x + whole, rest)), x + whole, rest);
}

void softcapInPlace(float* x, int count, float cap) {
  for (int i = 0; i < count; i += 16) storeFirst(softcap(loadFirst(x + i, count - i), cap), x + i, count - i);
}

}  // namespace
