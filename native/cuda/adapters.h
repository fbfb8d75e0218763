// What adapters add to rows of a step, on the device.
#pragma once

#include "cuda/work.h"

namespace chairlift {
namespace cuda {

/** Input rows whose owners use the adapter; `owners` is null where they are the rows of the step. */
AdaptedRows adaptedRows(const Addition& addition, const int32_t* owners, int rows, const RowTiles& tiles, Work& work);
AdaptedRows adaptedRows(int adapter, int rows, Work& work);

/** Adds what was made for these rows, row by row, to those of `args.out`; `args` has all but the rows. */
void addAdapted(const AdaptedRows& rows, AddAdaptedArgs args, Work& work);

}  // namespace cuda
}  // namespace chairlift
