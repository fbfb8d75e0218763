// See matrices.h.

#include "cuda/matrices.h"

#include <algorithm>
#include <cstring>

namespace chairlift {
namespace cuda {

namespace {

// Matrix instructions read 16 bytes a lane.
constexpr size_t alignment = 256;

size_t scaleBytesOf(ScaleType type) {
  return type == ScaleType::F32 ? 4 : type == ScaleType::Super || type == ScaleType::Power ? 1 : 2;
}

struct Layout {
  size_t codes, scales, minimums, supers;

  size_t total(size_t panels) const {
    return room(codes * panels) + room(scales * panels) + room(minimums * panels) + room(supers * panels);
  }
  /** Products read whole segments, beyond the last panel's end, too, and zeros there are finite. */
  static size_t room(size_t bytes) { return bytes == 0 ? 0 : roundUp(bytes + tailBytes, alignment); }

 private:
  static constexpr size_t tailBytes = groupsOfSegment * 512;
};

/** Bytes of one panel. */
Layout layOut(const PackedMatrix& shape) {
  if (shape.scaleInputs == 0) return {shape.panelBytes, 0, 0, 0};
  const size_t groups = size_t(shape.groups()), scaleGroups = size_t(shape.inputs / shape.scaleInputs);
  const bool isBytes = shape.codeBytes() == 512;
  const size_t codes = isBytes ? groups * 512 : roundUp(groups, 2) * 256;
  const size_t scales = roundUp(scaleGroups, 4) * panelOutputs * scaleBytesOf(shape.scaleType);
  const size_t supers = shape.scaleType == ScaleType::Super ? size_t(shape.chunks()) * (shape.hasMinimum ? 64 : 32) : 0;
  return {codes, scales, shape.hasMinimum ? scales : 0, supers};
}

// Panels that are uploaded at a time.
constexpr size_t stagedBytes = 32 << 20;

}  // namespace

std::string formatName(const MatrixView& matrix) {
  static const char* const encodings[] = {"f32",           "f16",    "bf16",            "f8",      "byte",
                                          "unsigned_byte", "nibble", "unsigned_nibble", "codebook"};
  static const char* const scales[] = {"f16", "bf16", "f32", "super", "power"};
  const std::string codes = encodings[matrix.encoding];
  if (matrix.scaleInputs == 0) return codes;
  const std::string inputs = matrix.scaleInputs > inputsOfGroup ? "shared" : std::to_string(matrix.scaleInputs);
  return codes + "_" + scales[matrix.scaleType] + "_" + inputs + (matrix.hasMinimum ? "_minimum" : "");
}

size_t DeviceMatrix::bytesOf(const PackedMatrix& shape, int panels, int members) {
  return layOut(shape).total(size_t(panels) * size_t(members));
}

DeviceMatrix::DeviceMatrix(Device& device, const PackedMatrix& shape, int panels, int members)
    : device_(device), panelBytes_(shape.panelBytes), memory_(device, bytesOf(shape, panels, members)) {
  const Layout layout = layOut(shape);
  const size_t all = size_t(panels) * size_t(members);
  auto* at = memory_.as<uint8_t>();
  const auto take = [&](size_t bytes) {
    const uint8_t* own = at;
    at += Layout::room(bytes * all);
    return own;
  };
  view_.codes = take(layout.codes);
  view_.scales = take(layout.scales);
  view_.minimums = take(layout.minimums);
  view_.supers = take(layout.supers);
  view_.codeStride = int64_t(layout.codes);
  view_.scaleStride = int64_t(layout.scales);
  view_.minimumStride = int64_t(layout.minimums);
  view_.superStride = int64_t(layout.supers);
  view_.inputs = shape.inputs;
  view_.outputs = shape.outputs;
  view_.panels = panels;
  view_.encoding = uint8_t(shape.encoding);
  view_.scaleType = uint8_t(shape.scaleType);
  view_.hasMinimum = shape.hasMinimum;
  view_.scaleInputs = shape.scaleInputs;
  view_.blockInputs = shape.blockInputs;
  view_.unit = shape.codebook ? shape.codebook->unit : 1.0f;
  if (shape.codebook) memcpy(view_.codebook, shape.codebook->values, sizeof view_.codebook);
  device_.prepareProducts(formatName(view_));
  // What pads groups and scales stays zero.
  device_.clear(memory_.as<uint8_t>(), memory_.bytes());
}

void DeviceMatrix::fill(const uint8_t* panels, int firstPanel, int count, DeviceMemory& staged) {
  if (view_.scaleInputs == 0) {
    device_.upload(const_cast<uint8_t*>(view_.codes) + size_t(firstPanel) * panelBytes_, panels, size_t(count) * panelBytes_);
    return;
  }
  const int atOnce = std::max(1, int(stagedBytes / panelBytes_));
  for (int done = 0; done < count; done += atOnce) {
    const int own = std::min(atOnce, count - done);
    if (staged.bytes() < size_t(own) * panelBytes_) staged = DeviceMemory(device_, size_t(own) * panelBytes_);
    device_.upload(staged.as<uint8_t>(), panels + size_t(done) * panelBytes_, size_t(own) * panelBytes_);
    RepackArgs args{staged.as<uint8_t>(), int64_t(panelBytes_), view_};
    const int64_t first = firstPanel + done;
    args.to.codes += first * view_.codeStride;
    args.to.scales += first * view_.scaleStride;
    args.to.minimums += first * view_.minimumStride;
    args.to.supers += first * view_.superStride;
    device_.launch("repack_panels", {own, 1, 256, 0}, args);
  }
}

void DeviceWeights::fill(ThreadPool& pool, const Matrix& matrix, int member, int firstRow, const uint8_t* rows, int count) {
  const size_t panelBytes = matrix.member().panelBytes, panels = size_t(count + panelColumns - 1) / panelColumns;
  if (packed_.bytes() < panels * panelBytes) packed_ = PageBuffer(panels * panelBytes);
  // Outputs that pad the last panel are zero.
  if (count % panelColumns != 0) memset(packed_.data() + (panels - 1) * panelBytes, 0, panelBytes);
  packRowsTo(pool, matrix, packed_.data(), rows, count);
  matrices_.at(&matrix)->fill(packed_.data(), member * matrix.panels() + firstRow / panelColumns, int(panels), staged_);
}

const float* DeviceWeights::vector(const std::vector<float>& values) {
  if (values.empty()) return nullptr;
  auto found = vectors_.find(values.data());
  if (found == vectors_.end()) {
    DeviceMemory memory(device_, values.size() * sizeof(float));
    device_.upload(memory.as<float>(), values.data(), values.size() * sizeof(float));
    found = vectors_.emplace(values.data(), std::move(memory)).first;
  }
  return found->second.as<float>();
}

}  // namespace cuda
}  // namespace chairlift
