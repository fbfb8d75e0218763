// The memory of KV blocks: one block's keys and values of all caches and heads lie together, on pages of their own, so
// that a block which nobody uses takes no memory.
#pragma once

#include <vector>

#include "kernels/kernels.h"
#include "system/reserved-memory.h"

namespace chairlift {

/** What a block holds of each token for one attention. */
struct KvCache {
  int headCount = 0;
  int headSize = 0;
  // 0: values are stored beside keys; else they are the first so many of each key.
  int valuesInKeys = 0;

  int valueSize() const { return valuesInKeys > 0 ? valuesInKeys : headSize; }
};

/**
 *   block    one behind the other, each from a new page on
 *     cache
 *       head   see headBlockBytes
 */
struct KvLayout {
  KvType type = KvType::F16;
  std::vector<KvCache> caches;

  size_t headBytes(size_t cache) const {
    return headBlockBytes(type, caches[cache].headSize, caches[cache].valuesInKeys > 0);
  }
  /** Where a cache begins in a block; that behind the last is where all end. */
  size_t cacheAt(size_t cache) const;
  /** What a block takes, and how far it is to the next. */
  size_t blockBytes() const;
};

class KvBlocks {
 public:
  KvBlocks(const KvLayout& layout, int count);
  ~KvBlocks();

  int count() const { return count_; }
  KvType type() const { return layout_.type; }
  const std::vector<KvCache>& caches() const { return layout_.caches; }
  /** From one block to the next, for the same cache and head. */
  size_t stride() const { return stride_; }
  uint8_t* at(int block, int cache, int head) const {
    const Place& place = places_[size_t(cache)];
    return memory_.data() + size_t(block) * stride_ + place.at + size_t(head) * place.headBytes;
  }

  /** To be called before a block is written: it may have no memory yet, and a sanitized build lets no kernel touch any other. */
  void hold(int block);
  /** Gives the memory of blocks back; their content is lost. */
  void release(std::vector<int32_t> blocks);

 private:
  /** Of a cache in its block. */
  struct Place {
    size_t at, headBytes;
  };

  const KvLayout layout_;
  std::vector<Place> places_;
  const int count_;
  const size_t stride_;
  ReservedMemory memory_;
  std::vector<bool> committed_;
};

}  // namespace chairlift
