#include "gil.h"

#include <unistd.h>

namespace ringfeed::python {
namespace {

// Python takes threads that come for the lock at its end apart by pthread_exit, which unwinds to
// here. There is nothing left for them to do.
template <typename Take>
auto TakeOrSleep(Take&& take) noexcept {
  try {
    return take();
  } catch (...) {
    SleepForever();
  }
}

}  // namespace

void SleepForever() noexcept {
  while (true) pause();
}

GilReleased::~GilReleased() {
  TakeOrSleep([this] { PyEval_RestoreThread(thread_); });
}

GilHeld::GilHeld() : state_(TakeOrSleep([] { return PyGILState_Ensure(); })) {}

}  // namespace ringfeed::python
