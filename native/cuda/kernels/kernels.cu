// All kernels, by the names that the backend launches. Compiled by CUDA's compiler for GPUs, and as C++ for the simulator.

#include "cuda/kernels/vec-lane.h"
//
#include "cuda/kernels/rows.h"
//
#include "cuda/kernels/codes.h"
#include "cuda/kernels/embedding.h"
#include "cuda/kernels/heads.h"
#include "cuda/kernels/input.h"
//
#include "cuda/kernels/attention.h"
#include "cuda/kernels/formats.h"
#include "cuda/kernels/products.h"
//
#include "cuda/kernels/products-stage.h"
//
#include "cuda/kernels/products-floats.h"
#include "cuda/kernels/products-many.h"
#include "cuda/kernels/products-stream.h"

using namespace chairlift::cuda;

CHAIRLIFT_KERNEL(embed_rows, EmbedArgs, 256, 1, embed(args))
CHAIRLIFT_KERNEL(measure_rows, MeasureArgs, 256, 1, measureRows(args))
CHAIRLIFT_KERNEL(gather_rows, GatherRowsArgs, 256, 1, gatherRows(args))
CHAIRLIFT_KERNEL(finish_part, FinishPartArgs, 512, 1, finishPart(args))
CHAIRLIFT_KERNEL(make_input, MakeInputArgs, 256, 1, makeInput(args))
CHAIRLIFT_KERNEL(place_heads, PlaceHeadsArgs, 128, 1, placeHeads(args))
CHAIRLIFT_KERNEL(attend_f16, AttentionArgs, 32, 1, attend<kvHalf>(args))
CHAIRLIFT_KERNEL(attend_q8, AttentionArgs, 32, 1, attend<kvByte>(args))
CHAIRLIFT_KERNEL(scale_logits, ScaleLogitsArgs, 256, 1, scaleLogits(args))
CHAIRLIFT_KERNEL(repack_panels, RepackArgs, 256, 1, repack(args))

// Float matrices, for up to that many rows, and for many.
#define CHAIRLIFT_FLOATS(name, encoding, blocks)                                                                      \
  CHAIRLIFT_KERNEL(floats1_##name, ProductArgs, 256, 3, (multiplyFloats<encoding, 1>(args)))                          \
  CHAIRLIFT_KERNEL(floats2_##name, ProductArgs, 256, 3, (multiplyFloats<encoding, 2>(args)))                          \
  CHAIRLIFT_KERNEL(floats4_##name, ProductArgs, 256, 2, (multiplyFloats<encoding, 4>(args)))                          \
  CHAIRLIFT_KERNEL(floats8_##name, ProductArgs, 256, encoding == codeF8 ? 1 : 2, (multiplyFloats<encoding, 8>(args))) \
  CHAIRLIFT_KERNEL(floats_many_##name, ProductArgs, FloatBlock<encoding>::threads, blocks, multiplyManyFloats<encoding>(args))
CHAIRLIFT_FLOATS(f32, codeF32, 3)
CHAIRLIFT_FLOATS(f16, codeF16, 3)
CHAIRLIFT_FLOATS(bf16, codeBf16, 3)
CHAIRLIFT_FLOATS(f8, codeF8, 1)

// Quantized matrices, for eight and sixteen rows.
#define CHAIRLIFT_STREAM(name, ...)                                                                     \
  CHAIRLIFT_KERNEL(stream1_##name, ProductArgs, 256, 2, (multiplyStream<Format<__VA_ARGS__>, 1>(args))) \
  CHAIRLIFT_KERNEL(stream2_##name, ProductArgs, 256, 2, (multiplyStream<Format<__VA_ARGS__>, 2>(args)))
CHAIRLIFT_COMMON_FORMATS(CHAIRLIFT_STREAM)
CHAIRLIFT_RARE_FORMATS(CHAIRLIFT_STREAM)

// For 32 rows, and for more.
#define CHAIRLIFT_MORE_ROWS(name, ...)                                                                                          \
  CHAIRLIFT_KERNEL(stream4_##name, ProductArgs, 256, 1, (multiplyStream<Format<__VA_ARGS__>, 4>(args)))                         \
  CHAIRLIFT_KERNEL(middle_##name, ProductArgs, MiddleShape::threads, 2, (multiplyMany<Format<__VA_ARGS__>, MiddleShape>(args))) \
  CHAIRLIFT_KERNEL(many_##name, ProductArgs, ManyShape::threads, 1, (multiplyMany<Format<__VA_ARGS__>, ManyShape>(args)))
CHAIRLIFT_COMMON_FORMATS(CHAIRLIFT_MORE_ROWS)

// Weights go to registers instead of shared memory.
#define CHAIRLIFT_FEW_ROWS(name, ...)                                                             \
  CHAIRLIFT_KERNEL(few1_##name, ProductArgs, 512, 1, (multiplyFew<Format<__VA_ARGS__>, 1>(args))) \
  CHAIRLIFT_KERNEL(few2_##name, ProductArgs, 512, 1, (multiplyFew<Format<__VA_ARGS__>, 2>(args)))
CHAIRLIFT_FEW_ROWS(nibble_f16_32, codeNibble, scaleF16, 32, false)
CHAIRLIFT_FEW_ROWS(byte_f16_32, codeByte, scaleF16, 32, false)
