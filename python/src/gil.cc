#include "gil.h"

#include <unistd.h>

namespace ringfeed::python {
namespace {

// At its end, Python ends threads that come for the lock by pthread_exit, which unwinds to here.
// They have nothing left to do.
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
