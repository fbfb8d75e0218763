// What adapters add to rows of a step, on the device.
#pragma once

#include "cuda/work.h"

namespace chairlift {
namespace cuda {

/** Each adapter that a step uses once, in order. */
std::vector<int32_t> usedAdapters(const StepInput& input);

/** Says which adapter each row of a step uses. */
class AdapterTable {
 public:
  /** For `rows` rows, with those that pad the step. */
  void beginStep(const StepInput& input, int rows, Work& work);

 private:
  Growing table_;
  std::vector<int32_t> words_;
};

/** Input rows whose owners use the adapter; `owners` is null where they are the rows of the step. */
AdaptedRows adaptedRows(const Addition& addition, const int32_t* owners, int rows, const RowTiles& tiles, Work& work);
AdaptedRows adaptedRows(int adapter, int rows, Work& work);

/** Adds what was made for these rows, row by row, to those of `args.out`; `args` has all but the rows. */
void addAdapted(const AdaptedRows& rows, AddAdaptedArgs args, Work& work);

}  // namespace cuda
}  // namespace chairlift
