// See attention-pieces.h.

#include "cuda/attention-pieces.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "cuda/work.h"

namespace chairlift {
namespace cuda {

namespace {

constexpr size_t countWords = 4;

/** How a kernel of few rows and small heads is launched: see kernels/attention-staged.h. */
struct FewForm {
  int warps, stagesOfWarp;

  int stages() const { return warps * stagesOfWarp; }
};
// The first has the least latency, the last leaves the most room for others.
constexpr std::array<FewForm, 3> fewForms{FewForm{8, 4}, FewForm{8, 2}, FewForm{4, 2}};
// What kernels/attention-one.h is compiled for.
constexpr int mostQueriesOfOne = 4;
// What registers suffice for.
constexpr int fewThreads = 512;

/** How a kernel of many rows is launched, by the largest head that it takes: see kernels/attention-many.h. */
struct ManyForm {
  const char* name;
  int headSize, tileTokens, threads, blocksOfMultiprocessor;

  size_t sharedBytes(size_t size, size_t padded, size_t element) const {
    const size_t tokens = size_t(tileTokens), scales = element == 1 ? 2 * tokens : 0;
    const size_t floats = (size + tokens + tokens / tokensOfBlock + 3) * manyQueries + tokens + scales;
    return floats * 4 + (size + padded) * tokens * element + 16;
  }
};
// The narrow ones are for GPUs with little shared memory.
constexpr ManyForm narrow{"128_narrow", 128, 32, 128, 3}, widest{"256", 256, 32, 256, 2};
constexpr std::array<ManyForm, 4> halfForms{ManyForm{"64", 64, 64, 128, 4}, ManyForm{"128", 128, 64, 128, 2}, narrow, widest};
constexpr std::array<ManyForm, 4> byteForms{ManyForm{"64", 64, 64, 128, 4}, ManyForm{"128", 128, 128, 128, 2}, narrow, widest};
// Of views: see kernels/vision.cu.
constexpr std::array<ManyForm, 4> floatForms{ManyForm{"64", 64, 64, 128, 3}, ManyForm{"64_narrow", 64, 32, 128, 3},
                                             ManyForm{"128", 128, 64, 256, 2}, ManyForm{"128_narrow", 128, 32, 256, 2}};

size_t powerOfTwoFrom(size_t n) {
  size_t power = 1;
  while (power < n) power *= 2;
  return power;
}

/** States and counters that split pieces need. */
struct Room {
  int states = 0, counters = 0;
};

int segmentsOf(const AttentionPiece& piece) { return piece.endSegment - piece.firstSegment; }

/** All segments of some queries, as one piece. */
AttentionPiece pieceOf(const AttentionShape& shape, const SequenceRows& sequence, int firstQuery, int queries) {
  const int group = shape.headCount / shape.kvHeadCount;
  const int first = sequence.start + firstQuery / group, last = sequence.start + (firstQuery + queries - 1) / group;
  AttentionPiece piece{};
  piece.firstRow = sequence.firstRow;
  piece.position = sequence.start;
  piece.end = sequence.end;
  piece.tableStart = sequence.tableStart;
  piece.firstQuery = firstQuery;
  piece.queries = queries;
  piece.firstSegment = piece.firstOfAll = shape.view.of(first, sequence.end).first / tokensOfSegment;
  piece.endSegment = shape.view.of(last, sequence.end).last / tokensOfSegment + 1;
  piece.parts = 1;
  return piece;
}

void addPieces(std::vector<AttentionPiece>& to, const AttentionShape& shape, const SequenceRows& sequence, int most) {
  const int total = sequence.rows * (shape.headCount / shape.kvHeadCount);
  for (int first = 0; first < total; first += most) {
    to.push_back(pieceOf(shape, sequence, first, std::min(most, total - first)));
  }
}

/** Cuts pieces into single segments. */
void split(std::vector<AttentionPiece>& pieces, Room& room) {
  std::vector<AttentionPiece> parts;
  for (const AttentionPiece& piece : pieces) {
    const int count = segmentsOf(piece);
    if (count == 1) {
      parts.push_back(piece);
      continue;
    }
    for (int i = 0; i < count; i++) {
      AttentionPiece part = piece;
      part.firstSegment = piece.firstSegment + i;
      part.endSegment = part.firstSegment + 1;
      part.parts = count;
      part.firstState = room.states;
      part.counter = room.counters;
      parts.push_back(part);
    }
    room.states += count * piece.queries;
    room.counters++;
  }
  pieces = std::move(parts);
}

void longestFirst(std::vector<AttentionPiece>& pieces) {
  std::stable_sort(pieces.begin(), pieces.end(), [](const AttentionPiece& left, const AttentionPiece& right) {
    return segmentsOf(left) > segmentsOf(right);
  });
}

/** The blocks that a piece sees, where it has one segment. */
void listBlocks(AttentionPiece& piece, const AttentionShape& shape, const int32_t* table) {
  if (segmentsOf(piece) != 1) return;
  const int group = shape.headCount / shape.kvHeadCount, firstBlock = piece.firstSegment * blocksOfSegment;
  const Seen front = shape.view.of(piece.position + piece.firstQuery / group, piece.end);
  const Seen back = shape.view.of(piece.position + (piece.firstQuery + piece.queries - 1) / group, piece.end);
  const int first = std::max(front.first / tokensOfBlock, firstBlock);
  const int end = std::min(back.last / tokensOfBlock + 1, firstBlock + blocksOfSegment);
  std::copy(table + first, table + end, piece.blocks);
}

/** The number of pieces and how many are taken are in the words before the first. */
void upload(Work& work, const std::vector<AttentionPiece>& pieces, Growing& to) {
  const size_t bytes = pieces.size() * sizeof(AttentionPiece);
  std::vector<int32_t> words(countWords + bytes / sizeof(int32_t));
  words[0] = int32_t(std::count_if(pieces.begin(), pieces.end(), [](const AttentionPiece& piece) { return piece.queries > 0; }));
  if (bytes > 0) memcpy(&words[countWords], pieces.data(), bytes);
  const size_t wordBytes = words.size() * sizeof(int32_t);
  work.device.upload(to.room(work, powerOfTwoFrom(wordBytes)).as<int32_t>(), words.data(), wordBytes);
}

}  // namespace

AttentionLoad attentionLoad(const std::vector<SequenceRows>& sequences) {
  AttentionLoad load;
  for (const SequenceRows& sequence : sequences) {
    if (sequence.rows > mostFewRows) {
      load.hasMany = true;
    } else {
      load.fewSegments += (sequence.end + tokensOfSegment - 1) / tokensOfSegment;
      load.fewRows = std::max(load.fewRows, sequence.rows);
    }
  }
  if (load.fewSegments > 0) {
    load.fewSegments = int(powerOfTwoFrom(size_t(load.fewSegments)));
    load.fewRows = int(powerOfTwoFrom(size_t(load.fewRows)));
  }
  return load;
}

void AttentionPieces::beginStep(Work& work, StepSequences sequences, const int32_t* tables) {
  sequences_ = std::move(sequences);
  tables_ = tables;
  for (size_t rows = 0; rows < 3; rows++) loads_[rows] = attentionLoad(sequences_.of[rows]);
  for (auto& [shape, lists] : lists_) make(work, shape, lists);
}

PieceLists AttentionPieces::lists(Work& work, const AttentionShape& shape) {
  const auto [found, isNew] = lists_.try_emplace(shape);
  if (isNew) make(work, shape, found->second);
  const auto listIn = [](const Growing& memory) {
    auto* words = memory.as<int32_t>();
    return PieceList{reinterpret_cast<const AttentionPiece*>(words + countWords), words};
  };
  return {listIn(found->second.few), listIn(found->second.many)};
}

std::optional<int64_t> AttentionPieces::fewBlocks(const AttentionShape& shape, int queries) const {
  const AttentionLoad& load = loadOf(shape);
  if (load.hasMany && !shape.hasMany) return std::nullopt;
  const int group = shape.headCount / shape.kvHeadCount;
  return int64_t(load.fewSegments) * shape.kvHeadCount * ((load.fewRows * group + queries - 1) / queries);
}

int AttentionPieces::queriesOfPiece(const Work& work, const AttentionShape& shape) const {
  if (shape.isLarge || !fewBlocks(shape, 1)) return shape.fewQueries;
  // Where there are few, each has fewer queries, so that more multiprocessors take part; they read keys and values several times.
  const int all = loadOf(shape).fewRows * shape.headCount / shape.kvHeadCount;
  int queries = 1;
  while (queries < std::min(all, shape.fewQueries) && *fewBlocks(shape, queries) > work.device.multiprocessors()) queries *= 2;
  return queries;
}

std::optional<int> AttentionPieces::oneBlocks(const Work& work, const AttentionShape& shape) const {
  const int queries = queriesOfPiece(work, shape), multiprocessors = work.device.multiprocessors();
  if (shape.isLarge || loadOf(shape).hasMany || loadOf(shape).fewRows != 1 || queries > mostQueriesOfOne) return std::nullopt;
  const int64_t blocks = *fewBlocks(shape, queries);
  return blocks <= multiprocessors ? std::optional<int>(int(blocks)) : std::nullopt;
}

void AttentionPieces::make(Work& work, const AttentionShape& shape, Lists& lists) {
  std::vector<AttentionPiece> few, single, many;
  const int queries = queriesOfPiece(work, shape);
  for (const SequenceRows& sequence : sequences_.of[size_t(shape.rows)]) {
    if (sequence.rows <= mostFewRows && !shape.isFloat) addPieces(single, shape, sequence, queries);
    else if (shape.hasMany) addPieces(many, shape, sequence, manyQueries);
    else addPieces(few, shape, sequence, queries);
  }
  Room room;
  split(single, room);
  // Others are only split where there are too few for all multiprocessors.
  const size_t enough = 2 * size_t(work.device.multiprocessors()), heads = size_t(shape.kvHeadCount);
  if (few.size() * heads < enough) split(few, room);
  if (many.size() * heads < enough) split(many, room);
  few.insert(few.end(), single.begin(), single.end());
  longestFirst(few);
  for (AttentionPiece& piece : few) listBlocks(piece, shape, tables_ + piece.tableStart);
  if (const auto blocks = oneBlocks(work, shape)) few.resize(std::max(few.size(), size_t(*blocks / shape.kvHeadCount)));
  longestFirst(many);
  if (!few.empty() || !lists.few.as<int32_t>()) upload(work, few, lists.few);
  if (!many.empty() || !lists.many.as<int32_t>()) upload(work, many, lists.many);
  const size_t states = size_t(room.states) * heads * size_t(stateHead + shape.padded);
  states_.room(work, powerOfTwoFrom(states * sizeof(float)));
  counters_.room(work, powerOfTwoFrom(size_t(room.counters) * heads * sizeof(int32_t)));
}

bool AttentionPieces::placesHeads(int headSize) const {
  const AttentionLoad& load = loads_[size_t(RowsOf::All)];
  return load.fewSegments > 0 && !load.hasMany && headSize <= mostStagedValues;
}

bool AttentionPieces::takesFloats(const Device& device, int headSize) {
  const size_t size = size_t(headSize), padded = roundUp(size, 16);
  return std::any_of(floatForms.begin(), floatForms.end(), [&](const ManyForm& form) {
    return headSize <= form.headSize && form.sharedBytes(size, padded, sizeof(float)) <= device.sharedBytes();
  });
}

void AttentionPieces::launch(Work& work, AttentionArgs args, RowsOf rows) {
  if (sequences_.of[size_t(rows)].empty()) return;
  Device& device = work.device;
  const bool isHalf = args.kvType == int32_t(KvType::F16), isFloat = args.kvType == int32_t(KvType::F32);
  const size_t element = isFloat ? 4 : isHalf ? 2 : 1, size = size_t(args.headSize), keyRow = roundUp(size, 16);
  const size_t padded = roundUp(size_t(args.valuesInKeys > 0 ? args.valuesInKeys : args.headSize), 16);
  const size_t valueBytes = padded * tokensOfBlock * element;
  AttentionShape shape{args.view, args.headCount, args.kvHeadCount, int(padded), fewQueries, false, false, rows, isFloat};
  shape.isLarge = args.valuesInKeys > 0 || padded > mostStagedValues;
  // See FewShared and ManyShared of the kernels.
  const auto fewBytes = [&](int queries, int stages) {
    const size_t perQuery = keyRow + tokensOfSegment + 3 * blocksOfSegment;
    const size_t numbers = perQuery * size_t(queries) * 4 + fewQueries * 36 + blocksOfSegment * 4;
    if (shape.isLarge) return numbers + size_t(stages) * valueBytes;
    const size_t placed = args.places ? ((size_t(queries) + 2 * mostFewRows) * keyRow + 2 * mostFewRows) * 4 : 0;
    return numbers + size_t(stages) * stageBytesOfFew + placed + (args.places ? 2 * mostFewRows * keyRow * element : 0);
  };
  const FewForm least = shape.isLarge ? FewForm{4, 0} : fewForms.back();
  const int leastStages = shape.isLarge ? 2 : least.stages();
  // A warp of few rows adds up to eight times 64 values of two queries.
  const bool isTooWide = (padded + 63) / 64 * size_t(fewQueries) / 2 > 32;
  if (isTooWide || fewBytes(fewQueries, leastStages) > device.sharedBytes()) shape.fewQueries = fewQueries / 2;
  const auto refuse = [&] {
    throw DeviceError("heads of " + std::to_string(size) + " values need more shared memory than " + device.name() + " has");
  };
  if (!isFloat && fewBytes(shape.fewQueries, leastStages) > device.sharedBytes()) refuse();
  const auto& manyForms = isFloat ? floatForms : isHalf ? halfForms : byteForms;
  const auto many = std::find_if(manyForms.begin(), manyForms.end(), [&](const ManyForm& form) {
    return size <= size_t(form.headSize) && form.sharedBytes(size, padded, element) <= device.sharedBytes();
  });
  shape.hasMany = args.valuesInKeys == 0 && many != manyForms.end();
  if (isFloat && !shape.hasMany) refuse();
  const AttentionLoad& load = loadOf(shape);
  const PieceLists made = lists(work, shape);
  args.states = states_.as<float>();
  args.counters = counters_.as<int32_t>();
  const int multiprocessors = device.multiprocessors();
  if (!isFloat && (load.fewSegments > 0 || !shape.hasMany)) {
    args.pieces = made.few.pieces;
    args.pieceCount = made.few.count;
    const int queries = queriesOfPiece(work, shape);
    const std::optional<int64_t> blocks = fewBlocks(shape, queries);
    // As many as a multiprocessor has room for at once; each takes a kilobyte more than it asks for.
    const auto resident = [&](const FewForm& form) {
      const size_t each = fewBytes(queries, form.stages()) + 1024;
      return int(std::min((device.sharedBytes() + 1024) / each, size_t(fewThreads / (32 * form.warps))));
    };
    const size_t oneBytes = size_t(oneSharedBytes(queries, int(size), int(element)));
    const auto one = oneBlocks(work, shape);
    const bool isPlain = args.places && args.place.what == placeAll && (!args.place.rotations || args.place.pairs * 2 == int(size));
    if (one && isPlain && (size == 64 || size == 128) && oneBytes <= device.sharedBytes()) {
      const std::string name = "attend_one" + std::to_string(queries) + (isHalf ? "_f16_" : "_q8_") + std::to_string(size);
      device.launch(name.c_str(), {*one, 1, oneThreads, oneBytes}, args);
      return;
    }
    FewForm form = least;
    if (!shape.isLarge && blocks) {
      const auto found = std::find_if(fewForms.begin(), fewForms.end(), [&](const FewForm& one) {
        return *blocks <= int64_t(resident(one)) * multiprocessors;
      });
      if (found != fewForms.end()) form = *found;
    }
    const int64_t most = int64_t(shape.isLarge ? 3 : std::max(1, resident(form))) * multiprocessors;
    const size_t bytes = fewBytes(queries, shape.isLarge ? leastStages : form.stages());
    args.sharedBytes = int32_t(bytes);
    args.stagesOfWarp = form.stagesOfWarp;
    const std::string name = std::string(isHalf ? "attend_few_f16_" : "attend_few_q8_") + (shape.isLarge ? "large" : "128");
    device.launch(name.c_str(), {int(std::min(most, blocks.value_or(most))), 1, form.warps * 32, bytes}, args);
  }
  if (isFloat || (load.hasMany && shape.hasMany)) {
    args.pieces = made.many.pieces;
    args.pieceCount = made.many.count;
    const size_t bytes = many->sharedBytes(size, padded, element);
    args.sharedBytes = int32_t(bytes);
    const std::string name = std::string(isFloat ? "attend_view_" : isHalf ? "attend_many_f16_" : "attend_many_q8_") + many->name;
    device.launch(name.c_str(), {multiprocessors * many->blocksOfMultiprocessor, 1, many->threads, bytes}, args);
  }
}

}  // namespace cuda
}  // namespace chairlift
