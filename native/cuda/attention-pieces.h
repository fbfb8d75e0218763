// How the attention of a step is cut into pieces: lists of them on the device, for each view of the sequences that layers have.
#pragma once

#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "cuda/device.h"
#include "cuda/growing.h"
#include "cuda/kernels/args.h"

namespace chairlift {
namespace cuda {

/** Rows of one sequence in a step, in all or in part. */
struct SequenceRows {
  int firstRow, rows, start;
  // Where its block table starts.
  int tableStart;
  // One past the last position that there is for them.
  int end;
};

/**
 * Rows of a step that a launch takes: all; or, where images are seen both ways, those of images apart from all others. Positions of
 * the former are `imageShift` higher, and so is a window, which then ends nothing that they see after them.
 */
enum class RowsOf { All, Text, Images };
constexpr int imageShift = 1 << 28;

struct StepSequences {
  // By RowsOf.
  std::vector<SequenceRows> of[3];
};

/** Layers that agree in this have the same pieces. */
struct AttentionShape {
  AttentionView view;
  int headCount, kvHeadCount, padded;
  // The most of a piece of few rows; whether pieces of many rows may be made.
  int fewQueries;
  bool hasMany;
  // Whether keys of few rows are not copied to shared memory: see kernels/attention-few.h.
  bool isLarge;
  RowsOf rows;
  // Whether all rows go to the kernels of many: there are no others for floats.
  bool isFloat;

  bool operator<(const AttentionShape& other) const { return key() < other.key(); }

 private:
  std::tuple<int, int, bool, int, int, int, int, bool, bool, RowsOf, bool> key() const {
    return {view.window, view.chunk, view.isBidirectional, headCount, kvHeadCount, padded, fewQueries, hasMany, isLarge, rows, isFloat};
  }
};

/** A list on the device. */
struct PieceList {
  const AttentionPiece* pieces;
  int32_t* count;
};
struct PieceLists {
  PieceList few, many;
};

/** What launches of attention depend on in a step, rounded so that few graphs are recorded. */
struct AttentionLoad {
  // Segments of sequences with few rows in this step, the most rows of one, and whether there are others.
  int fewSegments = 0, fewRows = 0;
  bool hasMany = false;
};

AttentionLoad attentionLoad(const std::vector<SequenceRows>& sequences);

class AttentionPieces {
 public:
  /** Makes the lists of all shapes that layers have asked for; `tables` are the block tables on the host. */
  void beginStep(Work& work, StepSequences sequences, const int32_t* tables);
  /** Whether attention itself can place the queries, keys and values of all rows of the step: `args.place`. */
  bool placesHeads(int headSize) const;
  /** Whether there are rows of images that see each other. */
  bool hasImages() const { return !sequences_.of[size_t(RowsOf::Images)].empty(); }
  /** Whether a device has room for heads of this size with keys and values of float32. */
  static bool takesFloats(const Device& device, int headSize);
  /** Launches the attention of a layer over rows of the step; `args` without pieces. */
  void launch(Work& work, AttentionArgs args, RowsOf rows = RowsOf::All);

 private:
  struct Lists {
    Growing few, many;
  };

  /** The lists of a shape; the first time, it makes them. */
  PieceLists lists(Work& work, const AttentionShape& shape);
  void make(Work& work, const AttentionShape& shape, Lists& lists);
  /** The most pieces of few rows with up to `queries` queries, times KV heads; none where their number has no bound. */
  std::optional<int64_t> fewBlocks(const AttentionShape& shape, int queries) const;
  /** The queries of a piece of few rows in this step. */
  int queriesOfPiece(const Work& work, const AttentionShape& shape) const;

  /** The blocks of kernels/attention-one.h where it serves this step; each has one piece and one KV head. */
  std::optional<int> oneBlocks(const Work& work, const AttentionShape& shape) const;

  const AttentionLoad& loadOf(const AttentionShape& shape) const { return loads_[size_t(shape.rows)]; }

  StepSequences sequences_;
  const int32_t* tables_ = nullptr;
  // By RowsOf.
  AttentionLoad loads_[3];
  std::map<AttentionShape, Lists> lists_;
  Growing states_, counters_;
};

}  // namespace cuda
}  // namespace chairlift
