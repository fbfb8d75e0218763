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
#include "cuda/kernels/finish-part.h"
//
#include "cuda/kernels/adapters.h"
#include "cuda/kernels/attention.h"
//
#include "cuda/kernels/attention-few.h"
//
#include "cuda/kernels/attention-staged.h"
//
#include "cuda/kernels/attention-one.h"
//
#include "cuda/kernels/attention-many.h"
//
#include "cuda/kernels/formats.h"
#include "cuda/kernels/products.h"
//
#include "cuda/kernels/products-stage.h"
//
#include "cuda/kernels/products-few.h"
#include "cuda/kernels/products-floats.h"
//
#include "cuda/kernels/router.h"
//
#include "cuda/kernels/moe.h"
#include "cuda/kernels/products-many.h"
#include "cuda/kernels/recurrence.h"
#include "cuda/kernels/sampling.h"
#include "cuda/kernels/streams.h"

using namespace chairlift::cuda;

CHAIRLIFT_KERNEL(embed_rows, EmbedArgs, 128, 1, embed(args))
CHAIRLIFT_KERNEL(measure_rows, MeasureArgs, 256, 1, measureRows(args))
CHAIRLIFT_KERNEL(gather_rows, GatherRowsArgs, 256, 1, gatherRows(args))
CHAIRLIFT_KERNEL(finish_part, FinishPartArgs, 512, 3, (finishPart<false, false>(args)))
CHAIRLIFT_KERNEL(finish_part_plain, FinishPartArgs, 1024, 1, (finishPart<false, true>(args)))
CHAIRLIFT_KERNEL(finish_mixture, FinishPartArgs, 512, 1, (finishPart<true, false>(args)))
CHAIRLIFT_KERNEL(finish_mixture_plain, FinishPartArgs, 512, 1, (finishPart<true, true>(args)))
CHAIRLIFT_KERNEL(make_input, MakeInputArgs, 128, 1, makeInput(args))
CHAIRLIFT_KERNEL(place_heads, PlaceHeadsArgs, 128, 1, placeHeads(args))
CHAIRLIFT_KERNEL(place_mla, PlaceMlaArgs, 64, 1, placeMla(args))
CHAIRLIFT_KERNEL(make_mla_queries, MlaQueriesArgs, 128, 1, makeMlaQueries(args))
CHAIRLIFT_KERNEL(order_heads, OrderHeadsArgs, 256, 1, orderHeads(args))
// By the type of KV and the largest head.
CHAIRLIFT_KERNEL(attend_few_f16_128, AttentionArgs, 256, 2, (attendFew<kvHalf, false>(args)))
CHAIRLIFT_KERNEL(attend_few_f16_large, AttentionArgs, 128, 3, (attendFew<kvHalf, true>(args)))
CHAIRLIFT_KERNEL(attend_few_q8_128, AttentionArgs, 256, 2, (attendFew<kvByte, false>(args)))
CHAIRLIFT_KERNEL(attend_few_q8_large, AttentionArgs, 128, 3, (attendFew<kvByte, true>(args)))
#define CHAIRLIFT_ATTEND_ONE(queries, size)                                                                                    \
  CHAIRLIFT_KERNEL(attend_one##queries##_f16_##size, AttentionArgs, oneThreads, 1, (attendOne<kvHalf, queries, size>(args))) \
  CHAIRLIFT_KERNEL(attend_one##queries##_q8_##size, AttentionArgs, oneThreads, 1, (attendOne<kvByte, queries, size>(args)))
CHAIRLIFT_ATTEND_ONE(1, 64)
CHAIRLIFT_ATTEND_ONE(1, 128)
CHAIRLIFT_ATTEND_ONE(2, 64)
CHAIRLIFT_ATTEND_ONE(2, 128)
CHAIRLIFT_ATTEND_ONE(4, 64)
CHAIRLIFT_ATTEND_ONE(4, 128)
CHAIRLIFT_KERNEL(attend_many_f16_64, AttentionArgs, 128, 4, (attendMany<kvHalf, 64, 8, 4, 4>(args)))
CHAIRLIFT_KERNEL(attend_many_f16_128, AttentionArgs, 128, 2, (attendMany<kvHalf, 64, 8, 4, 8>(args)))
CHAIRLIFT_KERNEL(attend_many_f16_128_narrow, AttentionArgs, 128, 3, (attendMany<kvHalf, 32, 4, 4, 8>(args)))
CHAIRLIFT_KERNEL(attend_many_f16_256, AttentionArgs, 256, 2, (attendMany<kvHalf, 32, 4, 2, 8>(args)))
CHAIRLIFT_KERNEL(attend_many_q8_64, AttentionArgs, 128, 4, (attendMany<kvByte, 64, 8, 4, 4>(args)))
CHAIRLIFT_KERNEL(attend_many_q8_128, AttentionArgs, 128, 2, (attendMany<kvByte, 128, 8, 8, 8>(args)))
CHAIRLIFT_KERNEL(attend_many_q8_128_narrow, AttentionArgs, 128, 3, (attendMany<kvByte, 32, 4, 4, 8>(args)))
CHAIRLIFT_KERNEL(attend_many_q8_256, AttentionArgs, 256, 2, (attendMany<kvByte, 32, 4, 2, 8>(args)))
CHAIRLIFT_KERNEL(scale_logits, ScaleLogitsArgs, 256, 1, scaleLogits(args))
CHAIRLIFT_KERNEL(sample_groups, SampleArgs, 256, 4, findGroups(args))
CHAIRLIFT_KERNEL(sample_likeliest, SampleArgs, 32, 1, findLikeliest(args))
CHAIRLIFT_KERNEL(sample_threshold, SampleArgs, 1024, 1, findThreshold(args))
CHAIRLIFT_KERNEL(sample_list, SampleArgs, 256, 4, listCandidates(args))
CHAIRLIFT_KERNEL(sample_sort, SampleArgs, 1024, 1, sortCandidates(args))
CHAIRLIFT_KERNEL(repack_panels, RepackArgs, 256, 1, repack(args))

#define CHAIRLIFT_SCORES(name, encoding)                                                              \
  CHAIRLIFT_KERNEL(score_experts1_##name, ScoreExpertsArgs, 128, 1, (scoreExperts<encoding, 1>(args))) \
  CHAIRLIFT_KERNEL(score_experts8_##name, ScoreExpertsArgs, 128, 1, (scoreExperts<encoding, 8>(args)))
CHAIRLIFT_SCORES(f32, codeF32)
CHAIRLIFT_SCORES(f16, codeF16)
CHAIRLIFT_SCORES(bf16, codeBf16)
CHAIRLIFT_KERNEL(choose_experts, ChooseExpertsArgs, 128, 1, chooseExperts(args))
CHAIRLIFT_KERNEL(route_few, RouteFewArgs, 256, 1, routeFew(args))
CHAIRLIFT_KERNEL(sort_choices, SortChoicesArgs, 512, 1, sortChoices(args))
CHAIRLIFT_KERNEL(mix_experts, MixExpertsArgs, 128, 1, mixExperts(args))
CHAIRLIFT_KERNEL(cut_gates, CutGatesArgs, 256, 1, cutGates(args))
CHAIRLIFT_KERNEL(share_rows, ShareRowsArgs, 256, 1, shareRows(args))

CHAIRLIFT_KERNEL(convolve_rows, ConvolveArgs, 128, 1, convolve(args))
CHAIRLIFT_KERNEL(keep_waiting, ConvolveArgs, 128, 1, keepWaiting(args))
CHAIRLIFT_KERNEL(convolve_sequences, ConvolveArgs, 128, 1, convolveSequences(args))
CHAIRLIFT_KERNEL(multiply_rows, MultiplyRowsArgs, 256, 1, multiplyRows(args))
CHAIRLIFT_KERNEL(prepare_delta, PrepareDeltaArgs, 256, 1, prepareDelta(args))
CHAIRLIFT_KERNEL(prepare_scan, PrepareScanArgs, 128, 1, prepareScan(args))
CHAIRLIFT_KERNEL(update_delta, RecurArgs, 32, 1, (recur<true, 0>(args)))
CHAIRLIFT_KERNEL(update_delta_128, RecurArgs, 32, 1, (recur<true, 128>(args)))
CHAIRLIFT_KERNEL(scan_states, RecurArgs, 32, 1, (recur<false, 0>(args)))
CHAIRLIFT_KERNEL(scan_states_128, RecurArgs, 32, 1, (recur<false, 128>(args)))
CHAIRLIFT_KERNEL(norm_heads, NormHeadsArgs, 128, 1, normHeads(args))
CHAIRLIFT_KERNEL(gate_and_norm, GateAndNormArgs, 256, 1, gateAndNorm(args))

CHAIRLIFT_KERNEL(finish_laurel, FinishLaurelArgs, 256, 1, finishLaurel(args))
CHAIRLIFT_KERNEL(scale_like, ScaleLikeArgs, 256, 1, scaleLike(args))
CHAIRLIFT_KERNEL(predict_streams, AltUpArgs, 256, 1, predictStreams(args))
CHAIRLIFT_KERNEL(correct_streams, AltUpArgs, 256, 1, correctStreams(args))
CHAIRLIFT_KERNEL(copy_stream, CopyStreamArgs, 256, 1, copyStream(args))
CHAIRLIFT_KERNEL(add_to_streams, AddToStreamsArgs, 256, 1, addToStreams(args))
CHAIRLIFT_KERNEL(average_streams, AltUpArgs, 256, 1, averageStreams(args))
CHAIRLIFT_KERNEL(cap_rows, CapRowsArgs, 32, 1, capRows(args))
CHAIRLIFT_KERNEL(finish_per_layer_inputs, FinishPerLayerInputsArgs, 256, 1, finishPerLayerInputs(args))
CHAIRLIFT_KERNEL(finish_embedding, FinishEmbeddingArgs, 256, 1, finishEmbedding(args))

CHAIRLIFT_KERNEL(adapter_tiles, AdapterTilesArgs, 128, 1, adapterTiles(args))
CHAIRLIFT_KERNEL(add_adapted, AddAdaptedArgs, 128, 1, addAdapted(args))

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
#define CHAIRLIFT_FEW_ROWS(name, ...)                                                             \
  CHAIRLIFT_KERNEL(few1_##name, ProductArgs, 256, 2, (multiplyFew<Format<__VA_ARGS__>, 1>(args))) \
  CHAIRLIFT_KERNEL(few2_##name, ProductArgs, 256, 2, (multiplyFew<Format<__VA_ARGS__>, 2>(args)))
CHAIRLIFT_COMMON_FORMATS(CHAIRLIFT_FEW_ROWS)
CHAIRLIFT_RARE_FORMATS(CHAIRLIFT_FEW_ROWS)

// For 32 rows, and for more.
#define CHAIRLIFT_MORE_ROWS(name, ...)                                                            \
  CHAIRLIFT_KERNEL(few4_##name, ProductArgs, 256, 1, (multiplyFew<Format<__VA_ARGS__>, 4>(args))) \
  CHAIRLIFT_KERNEL(many_##name, ProductArgs, ManyShape::threads, 1, (multiplyMany<Format<__VA_ARGS__>, ManyShape>(args)))
CHAIRLIFT_COMMON_FORMATS(CHAIRLIFT_MORE_ROWS)
