#pragma once

#include <nanobind/nanobind.h>

#include <mutex>
#include <string>

#include "ringfeed/status.h"

namespace ringfeed::python {

/// Raises the exception of ringfeed.errors that says what `status` says, with its code, file,
/// offset and record as attributes. Needs the lock.
[[noreturn]] void Raise(const Status& status);

/// Makes ringfeed's exceptions those of ringfeed.errors: Error, EndOfData (StopIteration).
void BindExceptions(nanobind::module_& module);

/// What a user's Python function threw on a thread of ringfeed's, kept for whoever reads the
/// chain: it gets that exception itself, with its traceback. Shared by the readers of a chain.
/// Thread safe; the exception is dropped with the lock held.
class ThrownKeeper {
 public:
  ThrownKeeper() = default;
  ~ThrownKeeper();
  ThrownKeeper(const ThrownKeeper&) = delete;
  ThrownKeeper& operator=(const ThrownKeeper&) = delete;

  /// Keeps the first one, and gives the Error that goes on in its place. Needs the lock.
  Error Keep(nanobind::python_error&& thrown);
  /// Raises what was kept, once; else returns. Needs the lock.
  void RaiseAgain();
  /// A new start.
  void Forget();

 private:
  std::mutex mutex_;
  PyObject* thrown_ = nullptr;  // an exception; owned
};

}  // namespace ringfeed::python
