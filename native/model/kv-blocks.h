// The memory of K/V blocks: one block's keys and values of all layers and heads lie together, on pages of their own, so
// that a block which nobody uses takes no memory.
#pragma once

#include <vector>

#include "kernels/kernels.h"
#include "system/reserved-memory.h"

namespace chairlift {

/**
 *   block    one behind the other, each from a new page on
 *     layer
 *       head   see headBlockBytes
 */
struct KvLayout {
  KvType type = KvType::F16;
  int headSize = 0;
  int headCount = 0;
  int layerCount = 0;

  size_t headBytes() const { return headBlockBytes(type, headSize); }
  size_t layerBytes() const { return headBytes() * size_t(headCount); }
  /** What a block takes, and how far it is to the next. */
  size_t blockBytes() const;
};

class KvBlocks {
 public:
  KvBlocks(const KvLayout& layout, int count);

  int count() const { return count_; }
  /** From one block to the next, for the same layer and head. */
  size_t stride() const { return stride_; }
  uint8_t* at(int block, int layer, int head) const {
    return memory_.data() + size_t(block) * stride_ + size_t(layer) * layout_.layerBytes() +
           size_t(head) * layout_.headBytes();
  }

  /** To be called before a block is written: a sanitized build lets no kernel touch any other. */
  void hold(int block);
  /** Gives the memory of blocks back; their content is lost. */
  void release(std::vector<int32_t> blocks);

 private:
  const KvLayout layout_;
  const int count_;
  const size_t stride_;
  ReservedMemory memory_;
};

}  // namespace chairlift
