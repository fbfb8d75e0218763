// Conversion of a group's codes from a file's encoding to a panel's, sixteen bytes at a time.
#pragma once

#include <cstring>

#include "model/source-format.h"

namespace chairlift {

inline uint16_t halfAt(const uint8_t* from) {
  uint16_t bits;
  memcpy(&bits, from, sizeof bits);
  return bits;
}

inline uint16_t minusHalfAt(const uint8_t* from) { return halfAt(from) ^ 0x8000; }

inline uint32_t wordAt(const uint8_t* from) {
  uint32_t value;
  memcpy(&value, from, sizeof value);
  return value;
}

// Sixteen bytes, shifted as two words and masked byte by byte.
using Bytes = uint64_t __attribute__((vector_size(16)));

inline Bytes bytesAt(const uint8_t* from) {
  Bytes bytes;
  memcpy(&bytes, from, sizeof bytes);
  return bytes;
}

constexpr uint64_t everyByte(uint64_t byte) { return byte * 0x0101010101010101u; }

/** A field of each byte. The mask drops what the shift brings over from a neighbour. */
inline Bytes field(Bytes bytes, int shift, uint64_t mask) { return (bytes >> shift) & everyByte(mask); }

struct Codes {
  Bytes first, second;
};

inline Codes fields(const uint8_t* from, int shift, uint64_t mask) {
  return {field(bytesAt(from), shift, mask), field(bytesAt(from + 16), shift, mask)};
}

inline Codes addAbove(const Codes& low, const Codes& high, int bits) {
  return {low.first | high.first << bits, low.second | high.second << bits};
}

/** Moves codes that stand for values from -zero on to those values. */
inline Codes subtract(const Codes& codes, uint64_t zero) {
  // Per byte: the borrow of each stays in its own top bit, which the last step sets right.
  const auto less = [&](Bytes a) {
    const Bytes b = Bytes{} + everyByte(zero), top = Bytes{} + everyByte(0x80);
    return ((a | top) - b) ^ top;
  };
  return {less(codes.first), less(codes.second)};
}

/** Inputs 0 … 15 from the low and 16 … 31 from the high halves of sixteen bytes. */
inline Codes splitNibbles(const uint8_t* from) {
  return {field(bytesAt(from), 0, 15), field(bytesAt(from), 4, 15)};
}

inline Codes spreadBits(const uint8_t* from) {
  // Byte j keeps bit j alone; adding the rest up to 128 carries it into the top bit.
  const auto spread = [](uint8_t low, uint8_t high) {
    const Bytes alone = Bytes{everyByte(low), everyByte(high)} & 0x8040201008040201u;
    return field(alone + 0x00406070787c7e7fu, 7, 1);
  };
  return {spread(from[0], from[1]), spread(from[2], from[3])};
}

inline void storeBytes(const Codes& codes, GroupCodes& to) { memcpy(to.codes, &codes, sizeof codes); }

/** For codes of up to four bits: input i + 16 above input i. */
inline void storeNibbles(const Codes& codes, GroupCodes& to) {
  const Bytes pairs = codes.first | codes.second << 4;
  memcpy(to.codes, &pairs, sizeof pairs);
}

}  // namespace chairlift
