// Readers of GGUF's IQ1, IQ2 and IQ3 types, whose values are entries of grids. Codes are the places of a grid's steps, and 8 more
// where a value is negative (moved down, in IQ1). A scale is 2 * scale + 1, on the block's half.
#pragma once

#include "model/source-format.h"

namespace chairlift {

void readIQ1_S(const uint8_t* block, ChunkCodes& to);
void readIQ1_M(const uint8_t* block, ChunkCodes& to);
void readIQ2_XXS(const uint8_t* block, ChunkCodes& to);
void readIQ2_XS(const uint8_t* block, ChunkCodes& to);
void readIQ2_S(const uint8_t* block, ChunkCodes& to);
void readIQ3_XXS(const uint8_t* block, ChunkCodes& to);
void readIQ3_S(const uint8_t* block, ChunkCodes& to);

}  // namespace chairlift
