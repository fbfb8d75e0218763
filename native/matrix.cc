// See matrix.h, and kernels.h for the panel layout.

#include "matrix.h"

#include <cstring>

#include "codebook.h"
#include "float-bits.h"

namespace chairlift {

namespace {

size_t roundUp64(size_t n) { return (n + 63) / 64 * 64; }

size_t codeBytesPerGroup(Encoding encoding) { return encoding == Encoding::Byte ? 512 : 256; }

size_t floatBytes(Encoding encoding) { return encoding == Encoding::F32 ? 4 : 2; }

PackedMatrix layOut(const SourceFormat& format, int outputs, int inputs) {
  PackedMatrix m{};
  m.encoding = format.encoding;
  m.scaleF16 = format.scaleF16;
  m.hasMinimum = format.hasMinimum;
  m.zero = format.zero;
  m.scaleInputs = format.scaleInputs;
  m.inputs = inputs;
  m.outputs = outputs;
  if (!format.readGroup) {
    m.panelBytes = roundUp64(size_t(inputs) * panelColumns * floatBytes(format.encoding));
    return m;
  }
  const size_t scaleBytes = size_t(inputs / format.scaleInputs) * panelColumns * (format.scaleF16 ? 2 : 4);
  m.scaleOffset = size_t(inputs / groupInputs) * codeBytesPerGroup(format.encoding);
  m.minimumOffset = m.scaleOffset + scaleBytes;
  m.panelBytes = roundUp64(m.minimumOffset + (format.hasMinimum ? scaleBytes : 0));
  return m;
}

}  // namespace

Matrix::Matrix(const SourceFormat& format, int outputs, int inputs)
    : format_(format), packed_(layOut(format, outputs, inputs)) {
  memory_ = PageBuffer(packed_.panelBytes * size_t(panels()));
  packed_.panels = memory_.data();
}

void Matrix::packPanel(int panel, const uint8_t* rows, int count) {
  uint8_t* to = memory_.data() + size_t(panel) * packed_.panelBytes;
  if (format_.readGroup) packCodes(to, rows, count);
  else packFloats(to, rows, count);
}

void Matrix::packFloats(uint8_t* panel, const uint8_t* rows, int count) const {
  const size_t size = floatBytes(packed_.encoding);
  for (int column = 0; column < count; column++) {
    const uint8_t* row = rows + size_t(column) * rowBytes();
    for (int k = 0; k < packed_.inputs; k++) {
      memcpy(panel + (size_t(k) * panelColumns + size_t(column)) * size, row + size_t(k) * size, size);
    }
  }
}

void Matrix::packCodes(uint8_t* panel, const uint8_t* rows, int count) const {
  const size_t groupBytes = codeBytesPerGroup(packed_.encoding);
  const int parts = groupInputs / packed_.scaleInputs;
  for (int column = 0; column < count; column++) {
    const uint8_t* row = rows + size_t(column) * rowBytes();
    for (int g = 0; g < packed_.inputs / groupInputs; g++) {
      GroupCodes group{};
      format_.readGroup(row, g, group);
      uint8_t* to = panel + size_t(g) * groupBytes + size_t(column) * 4;
      if (packed_.encoding == Encoding::Byte) {
        for (int q = 0; q < 8; q++) memcpy(to + q * 64, group.codes + q * 4, 4);
      } else {
        for (int q = 0; q < 4; q++) {
          for (int i = 0; i < 4; i++) to[q * 64 + i] = uint8_t(group.codes[q * 4 + i] | group.codes[q * 4 + 16 + i] << 4);
        }
      }
      for (int part = 0; part < parts; part++) {
        const size_t index = size_t(g * parts + part) * panelColumns + size_t(column);
        storeScale(panel + packed_.scaleOffset, index, group.scales[part]);
        if (packed_.hasMinimum) storeScale(panel + packed_.minimumOffset, index, group.minimums[part]);
      }
    }
  }
}

void Matrix::storeScale(uint8_t* at, size_t index, float value) const {
  if (packed_.scaleF16) {
    const uint16_t half = floatToF16(value);
    memcpy(at + index * 2, &half, 2);
  } else {
    memcpy(at + index * 4, &value, 4);
  }
}

float Matrix::loadScale(const uint8_t* at, size_t index) const {
  if (packed_.scaleF16) {
    uint16_t half;
    memcpy(&half, at + index * 2, 2);
    return f16ToFloat(half);
  }
  float value;
  memcpy(&value, at + index * 4, 4);
  return value;
}

void Matrix::unpackRow(int output, float* to) const {
  const uint8_t* panel = packed_.panels + size_t(output / panelColumns) * packed_.panelBytes;
  const size_t column = size_t(output % panelColumns);
  for (int k = 0; k < packed_.inputs; k++) {
    const size_t at = size_t(k) * panelColumns + column;
    uint16_t bits;
    switch (packed_.encoding) {
      case Encoding::F32: memcpy(to + k, panel + at * 4, 4); continue;
      case Encoding::F16: memcpy(&bits, panel + at * 2, 2); to[k] = f16ToFloat(bits); continue;
      case Encoding::BF16: memcpy(&bits, panel + at * 2, 2); to[k] = bf16ToFloat(bits); continue;
      default: break;
    }
    const int group = k / groupInputs, q = k % groupInputs / 4, i = k % 4;
    int code;
    if (packed_.encoding == Encoding::Byte) {
      code = panel[size_t(group) * 512 + size_t(q) * 64 + column * 4 + size_t(i)];
    } else {
      const uint8_t pair = panel[size_t(group) * 256 + size_t(q % 4) * 64 + column * 4 + size_t(i)];
      code = q < 4 ? pair & 15 : pair >> 4;
      if (packed_.encoding == Encoding::Codebook) code = codebook[code];
    }
    const size_t index = size_t(k / packed_.scaleInputs) * panelColumns + column;
    const float minimum = packed_.hasMinimum ? loadScale(panel + packed_.minimumOffset, index) : 0.0f;
    to[k] = loadScale(panel + packed_.scaleOffset, index) * float(code - packed_.zero) + minimum;
  }
}

}  // namespace chairlift
