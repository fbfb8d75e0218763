// Attention over paged KV and the storing of KV, for all storage types.

#include <algorithm>

#include "equality.h"
#include "kernels/float-bits.h"

namespace chairlift {

namespace {

const char* nameOf(KvType type) {
  constexpr const char* names[] = {"f16", "q8", "f32", "q4"};
  return names[size_t(type)];
}

/** Codes byte by byte, scales as what they are. */
std::vector<float> numbersOfQ4(const std::vector<uint8_t>& block) {
  std::vector<float> numbers;
  for (size_t at = 0; at < block.size(); at += q4GroupBytes) {
    float scales[blockTokens];
    for (int token = 0; token < blockTokens; token++) {
      uint16_t half;
      memcpy(&half, &block[at + q4CodeBytes + size_t(token) * 2], sizeof half);
      scales[token] = f16ToFloat(half);
    }
    numbers.insert(numbers.end(), &block[at], &block[at] + q4CodeBytes);
    numbers.insert(numbers.end(), scales, scales + blockTokens);
  }
  return numbers;
}

/** A block of one head as numbers, likewise. */
std::vector<float> numbersOf(KvType type, int headSize, bool valuesInKeys, const std::vector<uint8_t>& block) {
  if (type == KvType::Q4) return numbersOfQ4(block);
  std::vector<float> numbers;
  size_t at = 0;
  for (const size_t part : {valuesInKeys ? 0 : keyBytes(type, headSize), valueBytes(type, headSize)}) {
    if (part == 0) continue;
    const size_t scaleBytes = type == KvType::Q8 ? blockTokens * sizeof(float) : 0;
    for (size_t i = 0; i < part - scaleBytes; i++) numbers.push_back(float(block[at + i]));
    std::vector<float> scales(scaleBytes / sizeof(float));
    if (!scales.empty()) memcpy(scales.data(), &block[at + part - scaleBytes], scaleBytes);
    numbers.insert(numbers.end(), scales.begin(), scales.end());
    at += part;
  }
  return numbers;
}

void holdStore(Equality& equality, Random& random, KvType type, int headSize, bool valuesInKeys) {
  const std::vector<float> key = random.values(size_t(headSize), true);
  const std::vector<float> value = random.values(size_t(headSize), random.below(2) == 0);
  const int token = random.below(blockTokens);
  equality.hold(std::string("storeKv as ") + nameOf(type), [&](const KernelTable& kernels) {
    std::vector<uint8_t> block(headBlockBytes(type, headSize, valuesInKeys));
    kernels.storeKv(type, key.data(), valuesInKeys ? nullptr : value.data(), headSize, token, block.data());
    return numbersOf(type, headSize, valuesInKeys, block);
  });
}

void holdAttend(Equality& equality, Random& random, KvType type, int headSize, int valuesInKeys, int position,
                int window) {
  const int rows = 1 + random.below(random.below(4) == 0 ? 40 : 9), heads = 1 + random.below(5);
  const bool bidirectional = random.below(3) == 0;
  const int image = random.below(3) == 0 ? random.below(80) : 0, text = position + rows + (bidirectional ? random.below(80) : 0);
  const int tokens = std::max(text, position + rows + image), tableBlocks = (tokens + blockTokens - 1) / blockTokens;
  const size_t blockBytes = headBlockBytes(type, headSize, valuesInKeys > 0);
  std::vector<int32_t> table;
  for (int block = 0; block < tableBlocks; block++) table.insert(table.begin() + random.below(block + 1), block);

  // Where no token was stored lies NaN, which nobody may see.
  std::vector<uint8_t> memory(blockBytes * size_t(tableBlocks), 0xff);
  for (int token = 0; token < tokens; token++) {
    const std::vector<float> key = random.values(size_t(headSize)), value = random.values(size_t(headSize));
    uint8_t* block = &memory[size_t(table[size_t(token / blockTokens)]) * blockBytes];
    scalarKernels.storeKv(type, key.data(), valuesInKeys > 0 ? nullptr : value.data(), headSize, token % blockTokens,
                          block);
  }
  const size_t stride = size_t(heads * headSize) + 3;
  const std::vector<float> queries = random.values(stride * size_t(rows), random.below(8) == 0);
  const std::vector<float> sinks = random.values(size_t(heads));
  AttentionTask task{};
  task.queries = queries.data();
  task.rows = rows;
  task.queryHeads = heads;
  task.queryStride = task.outputStride = stride;
  task.position = position;
  task.headSize = headSize;
  task.valuesInKeys = valuesInKeys;
  task.textEnd = bidirectional ? text : 0;
  task.imageEnd = image > 0 ? position + rows + image : 0;
  task.window = window;
  task.chunk = random.oneOf({0, 0, 0, 40, 600});
  task.scale = random.oneOf({0.125f, 0.01f, 0.001f});
  task.softcap = random.oneOf({0.0f, 20.0f});
  task.sinks = random.below(3) == 0 ? sinks.data() : nullptr;
  task.blocks = table.data();
  task.base = memory.data();
  task.blockStride = blockBytes;
  equality.hold(std::string("attend over ") + nameOf(type), [&](const KernelTable& kernels) {
    std::vector<float> out(stride * size_t(rows)), scratch(attentionScratchFloats(headSize));
    AttentionTask own = task;
    own.outputs = out.data();
    own.scratch = scratch.data();
    kernels.attend(type, own);
    return out;
  });
  // As several threads attend to one history: parts in any order, and then their states.
  const int end = std::max({position + rows, task.textEnd, task.imageEnd}), segments = (end - 1) / segmentTokens + 1;
  const int cut = random.below(segments + 1);
  const auto attended = [&](const KernelTable& kernels, bool inParts) {
    std::vector<float> out(stride * size_t(rows)), scratch(attentionScratchFloats(headSize));
    std::vector<float> states(size_t(segments * rows * heads) * attentionStateFloats(task.valueSize()));
    AttentionTask own = task;
    own.outputs = out.data();
    own.scratch = scratch.data();
    if (inParts) {
      own.states = states.data();
      for (const auto& [first, last] : {std::pair(cut, segments), std::pair(0, cut)}) {
        own.firstSegment = first;
        own.endSegment = last;
        if (first < last) kernels.attend(type, own);
      }
      own.joins = true;
    }
    kernels.attend(type, own);
    return out;
  };
  equality.holdTo(attended(scalarKernels, false), std::string("attend in parts over ") + nameOf(type),
                  [&](const KernelTable& kernels) { return attended(kernels, true); });
}

}  // namespace

void holdAttention(Equality& equality, Random& random) {
  for (const KvType type : {KvType::F16, KvType::Q8, KvType::F32, KvType::Q4}) {
    const bool keepsRows = type == KvType::F16 || type == KvType::Q8;
    for (const int headSize : {8, 16, 24, 40, 64, 80, 96, 128}) {
      for (int i = 0; i < 12; i++) holdStore(equality, random, type, headSize, keepsRows && random.below(3) == 0);
      const auto hold = [&](int position, int window) {
        const int valuesInKeys = keepsRows ? random.oneOf({0, 0, headSize - 7}) : 0;
        holdAttend(equality, random, type, headSize, valuesInKeys, position, window);
      };
      for (int i = 0; i < 25; i++) {
        const int position = random.below(100);
        hold(position, random.oneOf({0, 0, 5, 33}));
      }
      // Rows before, across and after the ends of segments, with windows that begin in an earlier one.
      for (const int position : {505, 512, 900, 1019, 1024, 1300}) hold(position, random.oneOf({0, 0, 33, 520}));
    }
  }
}

}  // namespace chairlift
