#pragma once

#include <cxxabi.h>
#include <nanobind/nanobind.h>

namespace ringfeed::python {

/// The calling thread does not hold Python's lock while this lives. Use it around everything that
/// waits or works.
///
/// If the interpreter ends meanwhile, the thread does not come back: it sleeps until the process
/// ends, as Python itself does from 3.14 on. Earlier versions unwind such a thread by force, which
/// ends in std::terminate at the first destructor. nanobind's guards do not handle that.
class GilReleased {
 public:
  GilReleased() : thread_(PyEval_SaveThread()) {}
  ~GilReleased();
  GilReleased(const GilReleased&) = delete;
  GilReleased& operator=(const GilReleased&) = delete;

 private:
  PyThreadState* thread_;
};

/// The calling thread, which need not be one of Python's, holds the lock while this lives. At the
/// end of the interpreter as GilReleased.
class GilHeld {
 public:
  GilHeld();
  ~GilHeld() { PyGILState_Release(state_); }
  GilHeld(const GilHeld&) = delete;
  GilHeld& operator=(const GilHeld&) = delete;

 private:
  PyGILState_STATE state_;
};

/// Sleeps until the process ends.
[[noreturn]] void SleepForever() noexcept;

/// Returns the result of `call`, which calls Python's functions with the lock. These release the
/// lock and take it again, and are unwound by force if the interpreter ends meanwhile. Use it
/// around each such call, so that no destructor runs without the lock. The thread then sleeps, as
/// with GilReleased.
template <typename Call>
auto InPython(Call&& call) {
  try {
    return call();
  } catch (const abi::__forced_unwind&) {
    SleepForever();
  }
}

/// Returns the result of `function`, called without the lock.
template <typename Function>
auto Unlocked(Function&& function) {
  const GilReleased unlocked;
  return function();
}

/// A shared_ptr's deleter, for objects that join threads that may wait for the lock.
template <typename Owner>
void DeleteUnlocked(Owner* owner) {
  if (!Py_IsInitialized() || PyGILState_Check() == 0) {
    delete owner;
    return;
  }
  const GilReleased unlocked;
  delete owner;
}

}  // namespace ringfeed::python
