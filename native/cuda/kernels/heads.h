// Queries and keys between projection and attention: norms of heads, rotation, and storage of keys and values in their block.
// Include after rows.h.
#pragma once

namespace {

constexpr int kvHalf = 0, kvByte = 1;

CHAIRLIFT_DEVICE int roundUpTo16(int n) { return (n + 15) / 16 * 16; }

/** The scale of a norm over one head, by one warp; its 64 sums are two a lane. */
CHAIRLIFT_DEVICE Scale scaleOfHead(int kind, const float* head, int count, float epsilon) {
  const int lane = threadIndex() % 32;
  // Lanes 0 … 31 are those of the first two vectors, then of the last two.
  const auto sumOf = [&](float mean, bool squares) {
    float own[2] = {0, 0};
    for (int part = 0; part < 2; part++) {
      for (int i = part * 32 + lane; i < count; i += 64) {
        const float value = head[i] - mean;
        own[part] = squares ? fusedMultiplyAdd(value, value, own[part]) : own[part] + head[i];
      }
      own[part] = own[part] + shuffleXor(own[part], 16);
    }
    return sumOf16(own[0] + own[1]);
  };
  const float mean = kind == normLayer ? divided(sumOf(0, false), float(count)) : 0.0f;
  return {mean, divided(1.0f, squareRoot(divided(sumOf(mean, true), float(count)) + epsilon))};
}

CHAIRLIFT_DEVICE void normalizeHead(const NormArgs& norm, const Scale* given, int row, float* head, int size, int firstWeight) {
  if (!norm.weight) return;
  const Scale scale = given ? given[row] : scaleOfHead(norm.kind, head, size, norm.epsilon);
  syncWarp();
  for (int i = threadIndex() % 32; i < size; i += 32) {
    head[i] = normalizedValue(head[i], scale, norm.weight, norm.bias, firstWeight + i);
  }
  syncWarp();
}

CHAIRLIFT_DEVICE void rotateHead(float* head, const float* cosines, const float* sines, int pairs) {
  for (int i = threadIndex() % 32; i < pairs; i += 32) {
    const float a = head[i], b = head[i + pairs];
    head[i] = a * cosines[i] - b * sines[i];
    head[i + pairs] = b * cosines[i] + a * sines[i];
  }
  syncWarp();
}

/** Clamped to the range of halves, so that none is infinite; NaN stays NaN. */
CHAIRLIFT_DEVICE uint16_t toHalf(float value) {
  return floatToHalf(max(Vec{-65504.0f}, min(Vec{65504.0f}, Vec{value})).lane);
}

/** Keys or values of one token and head, as bytes with one scale; the result is in all lanes. */
CHAIRLIFT_DEVICE float storeHeadBytes(const float* from, int size, int8_t* to, int stride) {
  uint32_t largest = 0;
  float poison = 0;
  for (int i = threadIndex() % 32; i < size; i += 32) {
    const float magnitude = asFloat(asBits(from[i]) & 0x7fffffffu);
    if (magnitude > asFloat(largest)) largest = asBits(magnitude);
    poison = poison + (from[i] - from[i]);
  }
  for (int half = 16; half > 0; half /= 2) {
    const uint32_t other = shuffleXor(largest, half);
    if (other > largest) largest = other;
    poison = poison + shuffleXor(poison, half);
  }
  const float scale = divided(asFloat(largest), 127.0f);
  const float inverse = scale > 1e-30f ? divided(1.0f, scale) : 0.0f;
  for (int i = threadIndex() % 32; i < size; i += 32) {
    const float code = roundToEven(from[i] * inverse);
    to[i * stride] = code >= -127.0f && code <= 127.0f ? int8_t(code) : int8_t(0);
  }
  return scale + poison;
}

/** Keys or values of one token and head, in elements of the cache that are `stride` apart; the scale of bytes is in all lanes. */
CHAIRLIFT_DEVICE float storeHead(int kvType, const float* from, int size, uint8_t* to, int stride) {
  if (kvType == kvByte) return storeHeadBytes(from, size, (int8_t*)to, stride);
  for (int i = threadIndex() % 32; i < size; i += 32) ((uint16_t*)to)[i * stride] = toHalf(from[i]);
  return 1;
}

/** One token's keys and values of one head; `value` is null where values are a part of keys. See storeKv of the processor. */
CHAIRLIFT_DEVICE void storeToken(int kvType, const float* key, const float* value, int size, int token, uint8_t* block) {
  const int padded = roundUpTo16(size), lane = threadIndex() % 32, element = kvType == kvHalf ? 2 : 1;
  const bool hasScales = kvType == kvByte;
  uint8_t* const valuePart = value ? block + size * 32 * element + (hasScales ? 128 : 0) : block;
  if (value) {
    const float scale = storeHead(kvType, key, size, block + token * element, 32);
    if (hasScales && lane == 0) ((float*)(block + size * 32))[token] = scale;
  }
  uint8_t* const row = valuePart + token * padded * element;
  const float scale = storeHead(kvType, value ? value : key, size, row, 1);
  if (hasScales && lane == 0) ((float*)(valuePart + padded * 32))[token] = scale;
  if (!hasScales && size + lane < padded) ((uint16_t*)row)[size + lane] = 0;
}

/** Norms and rotates a head that is in shared memory, by one warp. */
CHAIRLIFT_DEVICE void placeHead(const PlaceHeadsArgs& args, const NormArgs& norm, const Scale* scales, int row, int position,
                                float* head, int firstWeight) {
  const bool hasFirst = args.what != placeFromNorms, hasLast = args.what != placeUpToRope;
  if (hasFirst && !args.normsAfterRope) normalizeHead(norm, scales, row, head, args.headSize, firstWeight);
  if (hasFirst && args.rotations) {
    const float* const cosines = args.rotations + int64_t(position) * 2 * args.pairs;
    rotateHead(head, cosines, cosines + args.pairs, args.pairs);
  }
  if (hasLast && args.normsAfterRope) normalizeHead(norm, scales, row, head, args.headSize, firstWeight);
}

/** A head of queries, from what a product left to shared memory. */
CHAIRLIFT_DEVICE void placeQuery(const PlaceHeadsArgs& args, int row, int position, int head, float* to) {
  const int size = args.headSize, lane = threadIndex() % 32;
  const float* const from = args.projected + int64_t(row) * args.stride + head * size;
#pragma unroll 4
  for (int i = lane; i < size; i += 32) to[i] = from[i];
  syncWarp();
  placeHead(args, args.queryNorm, args.queryScales, row, position, to, args.queryOwn ? head * size : 0);
  if (!args.growth || args.what == placeUpToRope) return;
  const float factor = args.growth[position];
  for (int i = lane; i < size; i += 32) to[i] = to[i] * factor;
  syncWarp();
}

/** A head of keys and the one of values. */
CHAIRLIFT_DEVICE void placeKeys(const PlaceHeadsArgs& args, int row, int position, int head, float* key, float* value) {
  const int size = args.headSize, at = head * size;
  const float* const keys = args.projected + int64_t(row) * args.stride + args.keysAt + at;
  const bool hasFirst = args.what != placeFromNorms;
  const float* const values = hasFirst && !args.hasValues ? keys : keys - args.keysAt + args.valuesAt;
#pragma unroll 4
  for (int i = threadIndex() % 32; i < size; i += 32) {
    key[i] = keys[i];
    value[i] = values[i];
  }
  syncWarp();
  if (hasFirst) normalizeHead(args.valueNorm, args.valueScales, row, value, size, args.valueOwn ? at : 0);
  placeHead(args, args.keyNorm, args.keyScales, row, position, key, args.keyOwn ? at : 0);
}

/**
 * A warp has one head of one row, first the queries, then keys with their values. Blocks: x are rows, y are warps of heads. Shared
 * memory: two heads for each warp, so that each is read once. Only hosts write where rows are.
 */
CHAIRLIFT_DEVICE void placeHeads(const PlaceHeadsArgs& args) {
  startNext();
  const int row = blockX(), size = args.headSize, warp = threadIndex() / 32, lane = threadIndex() % 32;
  const int index = blockY() * (threadCount() / 32) + warp, heads = args.headCount + (args.stores ? args.kvHeadCount : 0);
  const int block = args.blocks[row], position = args.positions[row];
  waitForPrevious();
  // Rows that pad a step have no block.
  if (index >= heads || block < 0) return;
  float* const projected = args.projected + int64_t(row) * args.stride;
  float* const own = (float*)sharedMemory() + warp * 2 * size;
  if (index < args.headCount) {
    placeQuery(args, row, position, index, own);
    for (int i = lane; i < size; i += 32) projected[index * size + i] = own[i];
    return;
  }
  const int head = index - args.headCount;
  placeKeys(args, row, position, head, own, own + size);
  if (args.what != placeUpToRope) {
    uint8_t* const to = args.kv + int64_t(block) * args.blockStride + head * args.headBytes;
    storeToken(args.kvType, own, own + size, size, position % 32, to);
    return;
  }
  for (int i = lane; i < size; i += 32) {
    projected[args.keysAt + head * size + i] = own[i];
    projected[args.valuesAt + head * size + i] = own[size + i];
  }
}

/** A block has a row: its first warp the compressed KV, the second one the compressed queries, both the row's places. */
CHAIRLIFT_DEVICE void placeMla(const PlaceMlaArgs& args) {
  waitForPrevious();
  const int row = blockX(), rows = blocksX(), thread = threadIndex(), block = args.blocks[row], position = args.positions[row];
  float* const projected = args.projected + int64_t(row) * args.stride;
  for (int head = thread; head < args.headCount; head += threadCount()) {
    args.queryPlaces[head * rows + row] = row * args.queryHeads + head;
    args.valuePlaces[head * rows + row] = row * args.headCount + head;
    // The first row of a tile makes it.
    const int tiles = (rows + rowsOfTile - 1) / rowsOfTile;
    if (row % rowsOfTile == 0) {
      const int left = rows - row;
      args.tiles[head * tiles + row / rowsOfTile] = {head, head * rows + row, left < rowsOfTile ? left : rowsOfTile};
    }
  }
  if (thread >= 32) {
    normalizeHead(args.queryInputNorm, nullptr, row, projected + args.queryInputAt, args.queryInputSize, 0);
    return;
  }
  normalizeHead(args.kvNorm, nullptr, row, projected, args.kvLoraRank, 0);
  const float* const cosines = args.rotations + int64_t(position) * 2 * args.pairs;
  rotateHead(projected + args.kvLoraRank, cosines, cosines + args.pairs, args.pairs);
  if (block < 0) return;
  storeToken(args.kvType, projected, nullptr, args.kvLoraRank + args.qkRopeHeadDim, position % 32,
             args.kv + int64_t(block) * args.blockStride);
}

/** A warp has one head of one row. Blocks: x are rows, y are warps of heads. */
CHAIRLIFT_DEVICE void makeMlaQueries(const MlaQueriesArgs& args) {
  waitForPrevious();
  const int row = blockX(), head = blockY() * (threadCount() / 32) + threadIndex() / 32, lane = threadIndex() % 32;
  if (head >= args.headCount) return;
  const int size = args.kvLoraRank + args.qkRopeHeadDim;
  const float* const compressed = args.compressed + (int64_t(head) * blocksX() + row) * args.kvLoraRank;
  const float* const unrotated = args.unrotated + int64_t(row) * args.unrotatedStride + head * args.qkRopeHeadDim;
  float* const query = args.queries + (int64_t(row) * args.headCount + head) * size;
  for (int i = lane; i < args.kvLoraRank; i += 32) query[i] = compressed[i];
  for (int i = lane; i < args.qkRopeHeadDim; i += 32) query[args.kvLoraRank + i] = unrotated[i];
  syncWarp();
  const float* const cosines = args.rotations + int64_t(args.positions[row]) * 2 * args.pairs;
  rotateHead(query + args.kvLoraRank, cosines, cosines + args.pairs, args.pairs);
}

CHAIRLIFT_DEVICE void orderHeads(const OrderHeadsArgs& args) {
  waitForPrevious();
  const int row = blockX(), rows = blocksX();
  float* const to = args.to + int64_t(row) * args.stride;
  for (int i = threadIndex(); i < args.headCount * args.size; i += threadCount()) {
    const int head = i / args.size;
    to[i] = args.byHead[(int64_t(head) * rows + row) * args.size + i % args.size];
  }
}

}  // namespace
