// See kv-blocks.h.

#include "model/kv-blocks.h"

#include <algorithm>

#include "system/pages.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(from, bytes)
#define ASAN_UNPOISON_MEMORY_REGION(from, bytes)
#endif

namespace chairlift {

size_t KvLayout::cacheAt(size_t cache) const {
  size_t at = 0;
  for (size_t i = 0; i < cache; i++) at += headBytes(i) * size_t(caches[i].headCount);
  return at;
}

size_t KvLayout::blockBytes() const {
  const size_t page = pageBytes();
  return (contentBytes() + page - 1) / page * page;
}

KvBlocks::KvBlocks(const KvLayout& layout, int count)
    : layout_(layout),
      statesAt_(layout.statesAt()),
      count_(count),
      stride_(layout.blockBytes()),
      memory_(stride_ * size_t(count)),
      committed_(size_t(count)) {
  for (size_t i = 0; i < layout.caches.size(); i++) places_.push_back({layout.cacheAt(i), layout.headBytes(i)});
  ASAN_POISON_MEMORY_REGION(memory_.data(), stride_ * size_t(count));
}

// The next owner of these addresses may touch them.
KvBlocks::~KvBlocks() { ASAN_UNPOISON_MEMORY_REGION(memory_.data(), stride_ * size_t(count_)); }

void KvBlocks::hold(int block) {
  if (!committed_[size_t(block)]) {
    memory_.commit(size_t(block) * stride_, stride_);
    committed_[size_t(block)] = true;
  }
  ASAN_UNPOISON_MEMORY_REGION(memory_.data() + size_t(block) * stride_, layout_.contentBytes());
}

void KvBlocks::release(std::vector<int32_t> blocks) {
  std::sort(blocks.begin(), blocks.end());
  // Neighbours go back in one call.
  for (size_t first = 0, end; first < blocks.size(); first = end) {
    for (end = first + 1; end < blocks.size() && blocks[end] - blocks[end - 1] <= 1;) end++;
    const size_t from = size_t(blocks[first]) * stride_, bytes = size_t(blocks[end - 1] - blocks[first] + 1) * stride_;
    memory_.release(from, bytes);
    for (int block = blocks[first]; block <= blocks[end - 1]; block++) committed_[size_t(block)] = false;
    ASAN_POISON_MEMORY_REGION(memory_.data() + from, bytes);
  }
}

}  // namespace chairlift
