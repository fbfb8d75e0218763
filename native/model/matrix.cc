// See matrix.h, and kernels.h for the panel layout.

#include "model/matrix.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <stdexcept>

#include "kernels/float-bits.h"

namespace chairlift {

namespace {

size_t roundUp64(size_t n) { return (n + 63) / 64 * 64; }

// A group's codes: four bytes of each of the 16 columns in a row.
constexpr size_t codeRowBytes = 4 * panelColumns;

// The factor of packed F8 scales over those of the file.
constexpr float f8Lift = 256;

// A type of its own: a plain byte is a scale of a super-block, a plain short a half.
enum class Power : uint8_t {};
enum class Brain : uint16_t {};

// By the bits of a scale.
bool isFinite(uint16_t bits) { return (bits & 0x7c00u) != 0x7c00u; }
bool isFinite(uint32_t bits) { return (bits & 0x7f800000u) != 0x7f800000u; }
bool isFinite(uint8_t) { return true; }
bool isFinite(Power power) { return uint8_t(power) <= largestPower; }
bool isFinite(Brain bits) { return (uint16_t(bits) >> 7 & 0xff) <= largestPower; }

size_t floatBytes(Encoding encoding) { return encoding == Encoding::F32 ? 4 : 2; }

PackedMatrix layOut(const SourceFormat& format, int outputs, int inputs) {
  PackedMatrix m{};
  m.encoding = format.encoding;
  m.scaleType = format.scaleType;
  m.hasMinimum = format.hasMinimum;
  m.codebook = format.codebook;
  m.scaleInputs = format.scaleInputs;
  m.inputs = inputs;
  m.outputs = outputs;
  if (format.encoding == Encoding::F8) {
    m.blockInputs = format.blockSize;
    m.panelBytes = size_t(inputs / format.blockSize) * m.blockBytes();
    return m;
  }
  if (!format.read) {
    m.panelBytes = roundUp64(size_t(inputs) * panelColumns * floatBytes(format.encoding));
    return m;
  }
  for (int chunk = 0; chunk < m.chunks(); chunk++) m.panelBytes += m.chunkBytes(m.groupsIn(chunk));
  return m;
}

}  // namespace

Matrix::Matrix(const SourceFormat& format, int outputs, int inputs, int members)
    : Matrix(format, outputs, inputs, members, PageBuffer(bytesOf(format, outputs, inputs, members))) {}

Matrix::Matrix(const SourceFormat& format, int outputs, int inputs, int members, PageBuffer memory)
    : format_(format), packed_(layOut(format, outputs, inputs)), members_(members), memory_(std::move(memory)) {
  packed_.panels = memory_.data();
}

std::shared_ptr<Matrix> Matrix::withoutPanels(const SourceFormat& format, int outputs, int inputs, int members) {
  return std::shared_ptr<Matrix>(new Matrix(format, outputs, inputs, members, PageBuffer()));
}

size_t Matrix::bytesOf(const SourceFormat& format, int outputs, int inputs, int members) {
  const size_t panels = size_t(outputs + panelColumns - 1) / panelColumns;
  return layOut(format, outputs, inputs).panelBytes * panels * size_t(members);
}

bool Matrix::packPanelTo(uint8_t* to, const uint8_t* rows, int count) const {
  if (format_.read) return packCodes(to, rows, count);
  if (packed_.encoding == Encoding::F8) return packF8(to, rows, count);
  if (packed_.encoding == Encoding::F32) packFloats<uint32_t>(to, rows, count);
  else packFloats<uint16_t>(to, rows, count);
  return true;
}

template <class Bits>
void Matrix::packFloats(uint8_t* panel, const uint8_t* rows, int count) const {
  // Some inputs of all columns at a time, so that writes stay in the first-level cache.
  constexpr int stretch = 256;
  for (int first = 0; first < packed_.inputs; first += stretch) {
    const int end = std::min(first + stretch, packed_.inputs);
    for (int column = 0; column < count; column++) {
      const uint8_t* row = rows + size_t(column) * rowBytes();
      uint8_t* to = panel + size_t(column) * sizeof(Bits);
      for (int k = first; k < end; k++) {
        memcpy(to + size_t(k) * panelColumns * sizeof(Bits), row + size_t(k) * sizeof(Bits), sizeof(Bits));
      }
    }
  }
}

bool Matrix::packF8(uint8_t* panel, const uint8_t* rows, int count) const {
  bool finite = true;
  for (int first = 0; first < packed_.inputs; first += packed_.blockInputs, panel += packed_.blockBytes()) {
    uint8_t* codes = panel + panelColumns * sizeof(float);
    for (int column = 0; column < count; column++) {
      const uint8_t* block = rows + size_t(column) * rowBytes() + size_t(first / packed_.blockInputs) * format_.blockBytes;
      float scale;
      memcpy(&scale, block, sizeof scale);
      scale *= f8Lift;
      finite &= isFinite(floatToBits(scale));
      memcpy(panel + size_t(column) * sizeof scale, &scale, sizeof scale);
      for (int k = 0; k < packed_.blockInputs; k++) {
        const uint8_t code = block[sizeof scale + size_t(k)];
        finite &= (code & 0x7f) != 0x7f;
        codes[size_t(k) * panelColumns + size_t(column)] = code;
      }
    }
  }
  return finite;
}

bool Matrix::packCodes(uint8_t* panel, const uint8_t* rows, int count) const {
  ChunkCodes read{};
  bool finite = true;
  for (int chunk = 0; chunk < packed_.chunks(); chunk++) {
    const int groups = packed_.groupsIn(chunk);
    for (int column = 0; column < count; column++) {
      format_.read(rows + size_t(column) * rowBytes(), chunk, groups, read);
      if (packed_.codeBytes() == 8 * codeRowBytes) storeCodes<8>(panel, groups, column, read);
      else storeCodes<4>(panel, groups, column, read);
      if (packed_.scaleType == ScaleType::F16) finite &= storeScales<uint16_t>(panel, groups, column, read);
      else if (packed_.scaleType == ScaleType::BF16) finite &= storeScales<Brain>(panel, groups, column, read);
      else if (packed_.scaleType == ScaleType::F32) finite &= storeScales<uint32_t>(panel, groups, column, read);
      else if (packed_.scaleType == ScaleType::Power) finite &= storeScales<Power>(panel, groups, column, read);
      else finite &= storeSupers(panel, groups, column, read);
    }
    panel += packed_.chunkBytes(groups);
  }
  return finite;
}

template <int codeRows>
void Matrix::storeCodes(uint8_t* chunk, int groups, int column, const ChunkCodes& from) const {
  uint8_t* to = chunk + size_t(column) * 4;
  for (int i = 0; i < groups; i++) {
    for (int q = 0; q < codeRows; q++, to += codeRowBytes) memcpy(to, from.groups[i].codes + q * 4, 4);
  }
}

template <class Bits>
bool Matrix::storeScales(uint8_t* chunk, int groups, int column, const ChunkCodes& from) const {
  uint8_t* scales = chunk + packed_.scalesAt(groups) + size_t(column) * sizeof(Bits);
  uint8_t* minimums = chunk + packed_.minimumsAt(groups) + size_t(column) * sizeof(Bits);
  bool finite = true;
  for (int i = 0, input = 0; input < groups * groupInputs; i++, input += packed_.scaleInputs) {
    const size_t at = size_t(i) * panelColumns * sizeof(Bits);
    const GroupCodes& group = from.groups[input / groupInputs];
    const int part = input % groupInputs / packed_.scaleInputs;
    const Bits scale = Bits(group.scales[part]), minimum = Bits(group.minimums[part]);
    memcpy(scales + at, &scale, sizeof scale);
    finite &= isFinite(scale);
    if (!packed_.hasMinimum) continue;
    memcpy(minimums + at, &minimum, sizeof minimum);
    finite &= isFinite(minimum);
  }
  return finite;
}

bool Matrix::storeSupers(uint8_t* chunk, int groups, int column, const ChunkCodes& from) const {
  storeScales<uint8_t>(chunk, groups, column, from);
  uint8_t* to = chunk + packed_.supersAt(groups) + size_t(column) * 2;
  memcpy(to, &from.superScale, 2);
  if (!packed_.hasMinimum) return isFinite(from.superScale);
  memcpy(to + panelColumns * 2, &from.superMinimum, 2);
  return isFinite(from.superScale) && isFinite(from.superMinimum);
}

float Matrix::loadScale(const uint8_t* from, int scaleGroup, int column, const uint8_t* supers) const {
  const size_t at = size_t(scaleGroup) * panelColumns + size_t(column);
  uint16_t half;
  float value;
  switch (packed_.scaleType) {
    case ScaleType::F32:
      memcpy(&value, from + at * 4, 4);
      return value;
    case ScaleType::F16:
      memcpy(&half, from + at * 2, 2);
      return f16ToFloat(half);
    case ScaleType::BF16:
      memcpy(&half, from + at * 2, 2);
      return bf16ToFloat(half);
    case ScaleType::Power: return powerToFloat(from[at]);
    default:
      memcpy(&half, supers + column * 2, 2);
      return float(int8_t(from[at])) * f16ToFloat(half);
  }
}

void Matrix::unpackRow(int output, float* to) const {
  const uint8_t* panel = packed_.panels + size_t(output / panelColumns) * packed_.panelBytes;
  const int column = output % panelColumns;
  switch (packed_.encoding) {
    case Encoding::F32: return unpackFloats<uint32_t>(panel, column, bitsToFloat, to);
    case Encoding::F16: return unpackFloats<uint16_t>(panel, column, f16ToFloat, to);
    case Encoding::BF16: return unpackFloats<uint16_t>(panel, column, bf16ToFloat, to);
    case Encoding::F8: return unpackF8(panel, column, to);
    default: break;
  }
  for (int chunk = 0; chunk < packed_.chunks(); chunk++) {
    const int groups = packed_.groupsIn(chunk);
    for (int group = 0; group < groups; group++, to += groupInputs) unpackGroup(panel, groups, group, column, to);
    panel += packed_.chunkBytes(groups);
  }
}

template <class Bits, class ToFloat>
void Matrix::unpackFloats(const uint8_t* panel, int column, ToFloat toFloat, float* to) const {
  for (int k = 0; k < packed_.inputs; k++) {
    Bits bits;
    memcpy(&bits, panel + (size_t(k) * panelColumns + size_t(column)) * sizeof bits, sizeof bits);
    to[k] = toFloat(bits);
  }
}

void Matrix::unpackF8(const uint8_t* panel, int column, float* to) const {
  for (int first = 0; first < packed_.inputs; first += packed_.blockInputs, panel += packed_.blockBytes()) {
    float scale;
    memcpy(&scale, panel + size_t(column) * sizeof scale, sizeof scale);
    const uint8_t* codes = panel + panelColumns * sizeof scale + column;
    for (int k = 0; k < packed_.blockInputs; k++) *to++ = scale * f16ToFloat(f8ToHalf(codes[size_t(k) * panelColumns]));
  }
}

void Matrix::unpackGroup(const uint8_t* chunk, int groups, int group, int column, float* to) const {
  const uint8_t* from = chunk + size_t(group) * packed_.codeBytes() + size_t(column) * 4;
  uint8_t bytes[groupInputs];
  int values[groupInputs];
  for (size_t q = 0; q < packed_.codeBytes() / codeRowBytes; q++) memcpy(bytes + q * 4, from + q * codeRowBytes, 4);
  for (int i = 0; i < groupInputs; i++) {
    const int nibble = bytes[i % 16] >> (i / 16 * 4) & 15;
    switch (packed_.encoding) {
      case Encoding::Byte: values[i] = int8_t(bytes[i]); break;
      case Encoding::UnsignedByte: values[i] = bytes[i]; break;
      case Encoding::Nibble: values[i] = nibble - 8; break;
      case Encoding::Codebook: values[i] = packed_.codebook->values[nibble]; break;
      default: values[i] = nibble;
    }
  }
  const int perScale = std::min(packed_.scaleInputs, groupInputs);
  const uint8_t* supers = chunk + packed_.supersAt(groups);
  const float unit = packed_.codebook ? packed_.codebook->unit : 1.0f;
  for (int first = 0; first < groupInputs; first += perScale) {
    const int index = (group * groupInputs + first) / packed_.scaleInputs;
    const float scale = unit * loadScale(chunk + packed_.scalesAt(groups), index, column, supers);
    const float minimum = packed_.hasMinimum ? loadScale(chunk + packed_.minimumsAt(groups), index, column,
                                                         supers + panelColumns * 2)
                                             : 0.0f;
    for (int i = first; i < first + perScale; i++) to[i] = scale * float(values[i]) + minimum;
  }
}

void packRowsTo(ThreadPool& pool, const Matrix& matrix, uint8_t* to, const uint8_t* rows, int count) {
  const int panels = (count + panelColumns - 1) / panelColumns;
  const size_t panelBytes = matrix.member().panelBytes;
  std::atomic<bool> finite{true};
  pool.forEach("pack weights", panels, 4, [&](int begin, int end, int) {
    for (int panel = begin; panel < end; panel++) {
      const int row = panel * panelColumns;
      if (!matrix.packPanelTo(to + size_t(panel) * panelBytes, rows + size_t(row) * matrix.rowBytes(),
                              std::min(panelColumns, count - row))) {
        finite = false;
      }
    }
  });
  if (!finite) throw std::runtime_error(notFinite);
}

void packRows(ThreadPool& pool, Matrix& matrix, int member, int firstRow, const uint8_t* rows, int count) {
  const size_t firstPanel = size_t(member) * size_t(matrix.panels()) + size_t(firstRow / panelColumns);
  packRowsTo(pool, matrix, matrix.panelAt(firstPanel), rows, count);
}

}  // namespace chairlift
