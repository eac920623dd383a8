#pragma once

#include <nanobind/nanobind.h>
#include <unistd.h>

#include <chrono>

#include "gil.h"
#include "ringfeed/detail/queue_policy.h"

namespace ringfeed::python {

/// How long a wait may go on before it checks for signals. Their handlers run only in the main
/// thread: other threads need not wake up for them.
inline QueueClock::duration WaitSlice() {
  using std::chrono::milliseconds;
  return getpid() == gettid() ? milliseconds(50) : milliseconds(10000);
}

/// Waits without the lock, and lets Python's signal handlers run meanwhile: Ctrl-C ends it with
/// KeyboardInterrupt, thrown as nb::python_error. `wait(deadline)` returns whether it is done;
/// false says that the deadline came first and nothing is lost. The first call has a past deadline,
/// so an available result costs no look at the clock. Returns false if nothing came until `limit`.
template <typename Wait>
bool WaitUnlocked(Wait&& wait, Deadline limit = kNoDeadline) {
  {
    const GilReleased unlocked;
    if (wait(Deadline{})) return true;
  }
  const QueueClock::duration slice = WaitSlice();
  while (true) {
    // Signals, and what ringfeed has to tell (WarnInPython).
    if (PyErr_CheckSignals() != 0 || Py_MakePendingCalls() != 0) throw nanobind::python_error();
    const GilReleased unlocked;
    const Deadline deadline = DeadlineAfter(slice);
    if (wait(deadline < limit ? deadline : limit)) return true;
    if (NativeQueuePolicy::Expired(limit)) return false;
  }
}

}  // namespace ringfeed::python
