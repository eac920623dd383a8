#pragma once

#include <cxxabi.h>
#include <nanobind/nanobind.h>

namespace ringfeed::python {

/// The calling thread is without Python's lock while this lives: around everything that waits or
/// works.
///
/// Where the interpreter ends meanwhile, the thread does not come back: it sleeps until the process
/// ends, as Python does by itself from 3.14 on. Before, Python unwinds such a thread by force,
/// which ends in std::terminate at the first destructor: nanobind's guards have none of this.
class GilReleased {
 public:
  GilReleased() : thread_(PyEval_SaveThread()) {}
  ~GilReleased();
  GilReleased(const GilReleased&) = delete;
  GilReleased& operator=(const GilReleased&) = delete;

 private:
  PyThreadState* thread_;
};

/// The calling thread, which may be none of Python's, has the lock while this lives. At the end of
/// the interpreter as GilReleased.
class GilHeld {
 public:
  GilHeld();
  ~GilHeld() { PyGILState_Release(state_); }
  GilHeld(const GilHeld&) = delete;
  GilHeld& operator=(const GilHeld&) = delete;

 private:
  PyGILState_STATE state_;
};

/// Until the process ends.
[[noreturn]] void SleepForever() noexcept;

/// What `call` returns, which calls Python's functions with the lock. These give the lock away and
/// come back for it, and are unwound by force where the interpreter ends meanwhile: around each
/// such call, so that no destructor runs without the lock. As GilReleased, the thread sleeps then.
template <typename Call>
auto InPython(Call&& call) {
  try {
    return call();
  } catch (const abi::__forced_unwind&) {
    SleepForever();
  }
}

/// What `function` returns, called without the lock.
template <typename Function>
auto Unlocked(Function&& function) {
  const GilReleased unlocked;
  return function();
}

/// A shared_ptr's deleter, for what joins threads that may wait for the lock.
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
