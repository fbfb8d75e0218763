// The kernels of models that see, by the names that the backend launches. Compiled as kernels.cu is, apart from it.

#include "cuda/kernels/vec-lane.h"
//
#include "cuda/kernels/rows.h"
//
#include "cuda/kernels/codes.h"
#include "cuda/kernels/embedding.h"
#include "cuda/kernels/heads.h"
//
#include "cuda/kernels/attention.h"
//
#include "cuda/kernels/attention-few.h"
//
#include "cuda/kernels/view-heads.h"
//
#include "cuda/kernels/attention-many.h"
#include "cuda/kernels/image-rows.h"
#include "cuda/kernels/view-rows.h"

using namespace chairlift::cuda;

CHAIRLIFT_KERNEL(read_patches, ReadPatchesArgs, 256, 1, readPatches(args))
CHAIRLIFT_KERNEL(add_taps, AddTapsArgs, 128, 1, addTaps(args))
CHAIRLIFT_KERNEL(gather_cells, GatherCellsArgs, 256, 1, gatherCellsOf(args))
CHAIRLIFT_KERNEL(change_rows, ChangeRowsArgs, 256, 1, changeRows(args))
CHAIRLIFT_KERNEL(add_branch, AddBranchArgs, 256, 1, addBranchRow(args))
CHAIRLIFT_KERNEL(place_view, PlaceViewArgs, 256, 1, placeView(args))
// By the largest head; the narrow ones are for GPUs with little shared memory.
CHAIRLIFT_KERNEL(attend_view_64, AttentionArgs, 128, 3, (attendMany<kvFloat, 64, 8, 4, 4>(args)))
CHAIRLIFT_KERNEL(attend_view_64_narrow, AttentionArgs, 128, 3, (attendMany<kvFloat, 32, 4, 4, 4>(args)))
CHAIRLIFT_KERNEL(attend_view_128, AttentionArgs, 256, 2, (attendMany<kvFloat, 64, 8, 2, 4>(args)))
CHAIRLIFT_KERNEL(attend_view_128_narrow, AttentionArgs, 256, 2, (attendMany<kvFloat, 32, 4, 2, 4>(args)))

CHAIRLIFT_KERNEL(set_image_rows, SetImageRowsArgs, 256, 1, setImageRows(args))
CHAIRLIFT_KERNEL(turn_rows, TurnRowsArgs, 128, 1, turnRows(args))
CHAIRLIFT_KERNEL(place_turned_heads, PlaceTurnedArgs, 128, 1, placeTurnedHeads(args))
