// A weight matrix in memory: owns the packed panels and fills them row by row from a file's encoding.
#pragma once

#include "kernels/kernels.h"
#include "system/page-buffer.h"
#include "model/source-format.h"

namespace chairlift {

// What is wrong with weights that cannot be packed. Kernels that lift whole numbers rely on scales that are finite.
constexpr const char* notFinite = "a scale or minimum is not finite";

class Matrix {
 public:
  Matrix(const SourceFormat& format, int outputs, int inputs);

  const PackedMatrix& packed() const { return packed_; }
  int panels() const { return (packed_.outputs + panelColumns - 1) / panelColumns; }
  size_t rowBytes() const { return format_.rowBytes(packed_.inputs); }
  size_t bytes() const { return memory_.bytes(); }

  /**
   * Packs one panel from its rows, the first of which starts at `rows`; `count` is 16 but for the last panel. Returns
   * whether all scales and minimums, and the values of F8, are finite.
   */
  [[nodiscard]] bool packPanel(int panel, const uint8_t* rows, int count);
  /** The weights of one output as floats. */
  void unpackRow(int output, float* to) const;

 private:
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
  PackedMatrix packed_;
  PageBuffer memory_;
};

}  // namespace chairlift
