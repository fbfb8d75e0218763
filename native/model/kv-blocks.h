// The memory of KV blocks. A block holds the keys and values of all caches and heads on pages of its own, so that an unused
// block takes no memory.
#pragma once

#include <vector>

#include "kernels/kernels.h"
#include "system/reserved-memory.h"

namespace chairlift {

// Of the last positions of a block that were computed: more than a step has draft tokens, so that the state of the last one
// that was accepted is among them.
constexpr int keptStates = 16;

/** What a block holds of each token for one attention. */
struct KvCache {
  int headCount = 0;
  int headSize = 0;
  // How many values of each key are the values; 0: values are stored on their own.
  int valuesInKeys = 0;

  int valueSize() const { return valuesInKeys > 0 ? valuesInKeys : headSize; }
};

/**
 *   block    starts on a new page
 *     cache
 *       head   see headBlockBytes
 *     state    of position p at p % keptStates, in bfloat16
 */
struct KvLayout {
  KvType type = KvType::F16;
  std::vector<KvCache> caches;
  // Values of the final states that blocks keep for an MTP head; 0: none are kept.
  int stateSize = 0;

  size_t headBytes(size_t cache) const {
    return headBlockBytes(type, caches[cache].headSize, caches[cache].valuesInKeys > 0);
  }
  /** The offset of a cache in a block; of one past the last: their end. */
  size_t cacheAt(size_t cache) const;
  /** Of what a block holds, without the rest of its last page. */
  size_t contentBytes() const { return statesAt() + size_t(stateSize) * keptStates * sizeof(uint16_t); }
  size_t statesAt() const { return cacheAt(caches.size()); }
  /** Whole pages: also the stride of blocks. */
  size_t blockBytes() const;
};

class KvBlocks {
 public:
  KvBlocks(const KvLayout& layout, int count);
  ~KvBlocks();

  int count() const { return count_; }
  KvType type() const { return layout_.type; }
  const std::vector<KvCache>& caches() const { return layout_.caches; }
  size_t stride() const { return stride_; }
  size_t contentBytes() const { return layout_.contentBytes(); }
  uint8_t* at(int block, int cache, int head) const {
    const Place& place = places_[size_t(cache)];
    return memory_.data() + size_t(block) * stride_ + place.at + size_t(head) * place.headBytes;
  }

  /** The state of a position, which lies in this block. */
  uint16_t* state(int block, int position) const {
    return (uint16_t*)(content(block) + statesAt_) + size_t(position % keptStates) * size_t(layout_.stateSize);
  }

  /** All that a block holds. */
  uint8_t* content(int block) const { return memory_.data() + size_t(block) * stride_; }

  /** Commits a block; call it before the block is written. Sanitized builds poison all others. */
  void hold(int block);
  /** Returns the memory of blocks; their content is lost. */
  void release(std::vector<int32_t> blocks);

 private:
  struct Place {
    size_t at, headBytes;
  };

  const KvLayout layout_;
  std::vector<Place> places_;
  const size_t statesAt_;
  const int count_;
  const size_t stride_;
  ReservedMemory memory_;
  std::vector<bool> committed_;
};

}  // namespace chairlift
