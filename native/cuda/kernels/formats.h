// The kinds of quantized matrices that source-format.cc makes: name, encoding, type of scales, inputs of a scale, minimums. Scales
// of 64 and of 128 inputs, which groups share, have the same kernels.
#pragma once

// Those of most published models, which have kernels for many rows.
#define CHAIRLIFT_COMMON_FORMATS(each)                                                \
  each(nibble_f16_32, codeNibble, scaleF16, 32, false)                                \
  each(byte_f16_32, codeByte, scaleF16, 32, false)                                    \
  each(byte_super_16, codeByte, scaleSuper, 16, false)                                \
  each(unsigned_nibble_super_32_minimum, codeUnsignedNibble, scaleSuper, 32, true)    \
  each(unsigned_nibble_f16_32_minimum, codeUnsignedNibble, scaleF16, 32, true)        \
  each(unsigned_nibble_f16_shared_minimum, codeUnsignedNibble, scaleF16, 64, true)    \
  each(unsigned_nibble_bf16_32_minimum, codeUnsignedNibble, scaleBf16, 32, true)      \
  each(unsigned_nibble_bf16_shared_minimum, codeUnsignedNibble, scaleBf16, 64, true)  \
  each(codebook_power_32, codeCodebook, scalePower, 32, false)

#define CHAIRLIFT_RARE_FORMATS(each)                                                  \
  each(byte_super_32_minimum, codeByte, scaleSuper, 32, true)                         \
  each(nibble_super_16, codeNibble, scaleSuper, 16, false)                            \
  each(nibble_super_32, codeNibble, scaleSuper, 32, false)                            \
  each(unsigned_nibble_super_16_minimum, codeUnsignedNibble, scaleSuper, 16, true)    \
  each(codebook_super_16, codeCodebook, scaleSuper, 16, false)                        \
  each(codebook_super_32, codeCodebook, scaleSuper, 32, false)                        \
  each(codebook_f16_16, codeCodebook, scaleF16, 16, false)                            \
  each(codebook_f16_32, codeCodebook, scaleF16, 32, false)                            \
  each(unsigned_nibble_f32_32_minimum, codeUnsignedNibble, scaleF32, 32, true)        \
  each(unsigned_nibble_f32_shared_minimum, codeUnsignedNibble, scaleF32, 64, true)    \
  each(byte_f16_32_minimum, codeByte, scaleF16, 32, true)                             \
  each(byte_f16_shared_minimum, codeByte, scaleF16, 64, true)                         \
  each(byte_bf16_32_minimum, codeByte, scaleBf16, 32, true)                           \
  each(byte_bf16_shared_minimum, codeByte, scaleBf16, 64, true)                       \
  each(byte_f32_32_minimum, codeByte, scaleF32, 32, true)                             \
  each(byte_f32_shared_minimum, codeByte, scaleF32, 64, true)                         \
  each(unsigned_byte_f16_32_minimum, codeUnsignedByte, scaleF16, 32, true)            \
  each(unsigned_byte_f16_shared_minimum, codeUnsignedByte, scaleF16, 64, true)        \
  each(unsigned_byte_bf16_32_minimum, codeUnsignedByte, scaleBf16, 32, true)          \
  each(unsigned_byte_bf16_shared_minimum, codeUnsignedByte, scaleBf16, 64, true)      \
  each(unsigned_byte_f32_32_minimum, codeUnsignedByte, scaleF32, 32, true)            \
  each(unsigned_byte_f32_shared_minimum, codeUnsignedByte, scaleF32, 64, true)
