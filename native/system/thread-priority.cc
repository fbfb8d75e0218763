// See thread-priority.h.

#include "system/thread-priority.h"

#if defined(_WIN32)
#include "system/windows.h"
#elif defined(__APPLE__)
#include <pthread.h>
#elif defined(__linux__)
#include <sched.h>
#endif

namespace chairlift {

bool lowerThreadPriority() {
#if defined(_WIN32)
  return SetThreadPriority(GetCurrentThread(), THREAD_PRIORITY_IDLE) != 0;
#elif defined(__APPLE__)
  // On cores that save power, where there are any; less than that would hold back its reads, too.
  return pthread_set_qos_class_self_np(QOS_CLASS_UTILITY, 0) == 0;
#elif defined(__linux__)
  // A low priority is not enough: to the scheduler a core that runs such a thread is busy, and it leaves two threads that compute on
  // one core beside it.
  const sched_param none = {};
  return sched_setscheduler(0, SCHED_IDLE, &none) == 0;
#else
  return false;
#endif
}

}  // namespace chairlift
