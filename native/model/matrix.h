// A weight matrix, or several of one shape (members): owns the packed panels and fills them from a file's encoding.
#pragma once

#include <memory>

#include "kernels/kernels.h"
#include "model/source-format.h"
#include "system/page-buffer.h"
#include "system/thread-pool.h"

namespace chairlift {

// Kernels rely on finite scales.
constexpr const char* notFinite = "a scale or minimum is not finite, or too large";

class Matrix {
 public:
  Matrix(const SourceFormat& format, int outputs, int inputs, int members = 1);
  /** A matrix whose panels are kept elsewhere, on a device. */
  static std::shared_ptr<Matrix> withoutPanels(const SourceFormat& format, int outputs, int inputs, int members);

  static size_t bytesOf(const SourceFormat& format, int outputs, int inputs, int members = 1);

  int outputs() const { return packed_.outputs; }
  int inputs() const { return packed_.inputs; }
  int panels() const { return (packed_.outputs + panelColumns - 1) / panelColumns; }
  int members() const { return members_; }
  size_t rowBytes() const { return format_.rowBytes(packed_.inputs); }
  size_t bytes() const { return memory_.bytes(); }
  bool readsCodes() const { return packed_.scaleInputs > 0; }

  /** Each member starts with a panel of its own. */
  PackedMatrix member(int index = 0) const {
    PackedMatrix one = packed_;
    one.panels += size_t(index) * size_t(panels()) * packed_.panelBytes;
    return one;
  }

  /** One panel of all members'. */
  /** Before anything is packed. Members are left out, for which threads compute them changes with every step. */
  void placeOn(const ThreadNodes& nodes) const {
    if (members_ == 1) nodes.place(memory_.data(), memory_.bytes());
  }
  uint8_t* panelAt(size_t panel) { return memory_.data() + panel * packed_.panelBytes; }
  /**
   * Packs one panel to `to` from its rows, the first of which starts at `rows`; `count` is 16 but for a member's last panel.
   * Returns whether all scales and minimums, and the values of F8, are finite.
   */
  [[nodiscard]] bool packPanelTo(uint8_t* to, const uint8_t* rows, int count) const;
  /** The weights of one output as floats, of the first member. */
  void unpackRow(int output, float* to) const;

 private:
  Matrix(const SourceFormat& format, int outputs, int inputs, int members, PageBuffer memory);

  template <class Bits>
  void packFloats(uint8_t* panel, const uint8_t* rows, int count) const;
  bool packF8(uint8_t* panel, const uint8_t* rows, int count) const;
  bool packCodes(uint8_t* panel, const uint8_t* rows, int count) const;
  // Parts of one column of a chunk of `groups` groups; scales say whether they are finite.
  template <int codeRows>
  void storeCodes(uint8_t* chunk, int groups, int column, const ChunkCodes& from) const;
  template <class Bits>
  bool storeScales(uint8_t* chunk, int groups, int column, const ChunkCodes& from) const;
  bool storeSupers(uint8_t* chunk, int groups, int column, const ChunkCodes& from) const;
  float loadScale(const uint8_t* from, int scaleGroup, int column, const uint8_t* supers) const;
  template <class Bits, class ToFloat>
  void unpackFloats(const uint8_t* panel, int column, ToFloat toFloat, float* to) const;
  void unpackF8(const uint8_t* panel, int column, float* to) const;
  void unpackGroup(const uint8_t* chunk, int groups, int group, int column, float* to) const;

  const SourceFormat& format_;
  // Of the first member.
  PackedMatrix packed_;
  const int members_;
  PageBuffer memory_;
};

/**
 * Packs consecutive rows of a member, from a multiple of 16 on, on all threads of a pool; throws where a scale is not
 * finite.
 */
void packRows(ThreadPool& pool, Matrix& matrix, int member, int firstRow, const uint8_t* rows, int count);
/** The same into panels at `to`. */
void packRowsTo(ThreadPool& pool, const Matrix& matrix, uint8_t* to, const uint8_t* rows, int count);

}  // namespace chairlift
