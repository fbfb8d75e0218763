// Threads that take what others leave of the processor. What differs between systems is in thread-priority.cc.
#pragma once

namespace chairlift {

/** Of the calling thread; false where the system refuses. */
bool lowerThreadPriority();

}  // namespace chairlift
