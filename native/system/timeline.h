// What the threads of a pool did, and when: a record of loops and of the pieces that each thread took of them. Room is taken before
// the recording begins, so that recording costs a thread two readings of the clock and a store for each piece.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace chairlift {

/** What a loop computes. Its texts must stay until the timeline has been read. */
struct LoopName {
  // By itself a loop's name is one text.
  LoopName(const char* itsOperation, const char* itsSubject = "", size_t itsBytes = 0)
      : operation(itsOperation), subject(itsSubject), bytes(itsBytes) {}

  const char* operation;
  // Weights by the names of the model's file; empty for others.
  const char* subject;
  // Of weights that all threads together read once.
  size_t bytes;
};

class Timeline {
 public:
  /** In nanoseconds since the recording began. */
  struct Span {
    int64_t begin, end;
  };
  struct Loop {
    LoopName name;
    Span time;
  };
  struct Piece {
    int32_t loop;
    Span time;
  };

  Timeline(int threads, size_t loops, size_t piecesPerThread) : began_(clock()), lanes_(size_t(threads)) {
    loops_.reserve(loops);
    // Written once: pages that are first touched while threads compute would take longer than what is measured.
    for (Lane& lane : lanes_) {
      lane.pieces.resize(piecesPerThread);
      lane.pieces.clear();
    }
  }
  Timeline(const Timeline&) = delete;

  int64_t now() const { return clock() - began_; }

  /** The number of a loop that begins now; -1 where there is no room. By the caller of the loop, one at a time. */
  int32_t beginLoop(const LoopName& name) {
    if (loops_.size() == loops_.capacity()) {
      dropped_++;
      return -1;
    }
    const int64_t time = now();
    loops_.push_back({name, {time, time}});
    return int32_t(loops_.size()) - 1;
  }
  void endLoop(int32_t loop) {
    if (loop >= 0) loops_[size_t(loop)].time.end = now();
  }

  /** A piece that began at `begin` and ends now. By the thread that computed it. */
  void addPiece(int32_t loop, int thread, int64_t begin) {
    Lane& lane = lanes_[size_t(thread)];
    if (loop < 0) return;
    if (lane.pieces.size() == lane.pieces.capacity()) lane.dropped++;
    else lane.pieces.push_back({loop, {begin, now()}});
  }

  void addStep(int64_t begin) { steps_.push_back({begin, now()}); }

  // To be read between loops.
  int threads() const { return int(lanes_.size()); }
  const std::vector<Loop>& loops() const { return loops_; }
  const std::vector<Span>& steps() const { return steps_; }
  const std::vector<Piece>& pieces(int thread) const { return lanes_[size_t(thread)].pieces; }
  /** Loops and pieces for which there was no room. */
  size_t dropped() const {
    size_t all = dropped_;
    for (const Lane& lane : lanes_) all += lane.dropped;
    return all;
  }

 private:
  struct alignas(64) Lane {
    std::vector<Piece> pieces;
    size_t dropped = 0;
  };

  static int64_t clock() {
    using namespace std::chrono;
    return duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
  }

  const int64_t began_;
  std::vector<Loop> loops_;
  std::vector<Span> steps_;
  std::vector<Lane> lanes_;
  size_t dropped_ = 0;
};

/** Marks a step, where one is recorded. */
class StepMark {
 public:
  explicit StepMark(Timeline* timeline) : timeline_(timeline), begin_(timeline ? timeline->now() : 0) {}
  ~StepMark() {
    if (timeline_) timeline_->addStep(begin_);
  }
  StepMark(const StepMark&) = delete;

 private:
  Timeline* const timeline_;
  const int64_t begin_;
};

}  // namespace chairlift
