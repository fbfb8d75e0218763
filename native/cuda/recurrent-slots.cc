// See recurrent-slots.h.

#include "cuda/recurrent-slots.h"

namespace chairlift {
namespace cuda {

RecurrentSlots::RecurrentSlots(const std::vector<StateLayout>& layouts, int slots, Work& work) : work_(work) {
  DeviceStates& states = work.states;
  size_t floats = 0;
  for (const StateLayout& layout : layouts) {
    states.starts.push_back(floats);
    pieces_.push_back({floats * sizeof(float), contentBytes_, layout.size() * sizeof(float)});
    contentBytes_ += layout.size() * sizeof(float);
    floats += roundUp(layout.size(), 32);
  }
  if (floats == 0) return;
  slots_ = DeviceMemory(work.device, floats * size_t(slots) * sizeof(float));
  states.slots = slots_.as<float>();
  states.slotStride = floats;
}

void RecurrentSlots::read(int slot, uint8_t* to) {
  for (const Piece& piece : pieces_) work_.device.download(to + piece.contentAt, place(slot, piece), piece.bytes);
  work_.device.wait();
}

void RecurrentSlots::write(int slot, const uint8_t* from) {
  for (const Piece& piece : pieces_) work_.device.upload(place(slot, piece), from + piece.contentAt, piece.bytes);
}

/** Tables by row, by sequence, and of runs, whose number the shape of a step does not say. */
void RecurrentSlots::beginStep(const StepInput& input, int rows, int sequences) {
  DeviceStates& states = work_.states;
  if (states.starts.empty()) return;
  const size_t fromsAt = size_t(rows), startsAt = 2 * fromsAt, runsAt = startsAt + size_t(sequences) + 1;
  words_.assign(runsAt, 0);
  // Rows that pad the step are sequences of their own, without states.
  for (size_t row = 0; row < fromsAt; row++) {
    words_[row] = int32_t(row);
    words_[fromsAt + row] = -1;
  }
  int32_t runs = 0;
  for (size_t sequence = 0; sequence < size_t(sequences); sequence++) {
    words_[startsAt + sequence] = runs;
    if (sequence >= input.recurrentFrom.size()) continue;
    const int32_t first = input.rowStarts[sequence], end = input.rowStarts[sequence + 1];
    int32_t row = first, from = input.recurrentFrom[sequence];
    for (int32_t own = first; own < end; own++) {
      words_[size_t(own)] = first;
      words_[fromsAt + size_t(own)] = from;
    }
    for (int32_t i = input.recurrentStarts[sequence]; i < input.recurrentStarts[sequence + 1]; i++) {
      const int32_t next = input.recurrentRows[size_t(i)] + 1, to = input.recurrentSlots[size_t(i)];
      words_.insert(words_.end(), {row, next - row, from, to});
      row = next;
      from = to;
      runs++;
    }
  }
  words_[runsAt - 1] = runs;
  // Room for more runs, so that steps of one shape keep their addresses.
  const size_t room = runsAt + roundUp(words_.size() - runsAt + 1, 4096);
  auto* device = tables_.room(work_, room * sizeof(int32_t)).as<int32_t>();
  work_.device.upload(device, words_.data(), words_.size() * sizeof(int32_t));
  states.sequences = sequences;
  states.firstRows = device;
  states.fromSlots = device + fromsAt;
  states.runStarts = device + startsAt;
  states.runs = reinterpret_cast<const RunOfRows*>(device + runsAt);
}

}  // namespace cuda
}  // namespace chairlift
