// Memory straight from the system, in whole pages. What differs between systems is in pages.cc.
#pragma once

#include <cstddef>

namespace chairlift {

size_t pageBytes();

/** Zeroed memory whose pages are taken when first touched, huge ones where allowed; null where there is none. */
void* mapPages(size_t bytes);

/** Addresses alone; null where there are none. Pages must be committed before they are touched. */
void* reservePages(size_t bytes);

/** Reserved pages may be touched from now on, and take memory when they are. False where the system has none. */
bool commitPages(void* from, size_t bytes);

/** Takes the memory from reserved pages: committed and touched again, they are zeroed. */
bool decommitPages(void* from, size_t bytes);

void unmapPages(void* from, size_t bytes);

}  // namespace chairlift
