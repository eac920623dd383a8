#pragma once

#include <nanobind/nanobind.h>

#include <mutex>
#include <string>
#include <unordered_map>

#include "ringfeed/status.h"

namespace ringfeed::python {

/// Raises the exception of ringfeed.errors that says what `status` says, with its code, file,
/// offset and record as attributes. Needs the lock. What was cancelled by the end of the
/// interpreter ends the thread without a word (SystemExit): see NoteExit.
[[noreturn]] void Raise(const Status& status);
/// The interpreter ends: what is cancelled from now on is, in other threads than the main one,
/// since these are daemons then, which nobody waits for.
void NoteExit();

/// Makes ringfeed's exceptions those of ringfeed.errors: Error, EndOfData (StopIteration).
void BindExceptions(nanobind::module_& module);

/// What a user's Python function threw on threads of ringfeed's, kept for whoever reads the chain:
/// it gets that exception itself, with its traceback. Several threads may throw, and what is first
/// in time need not be the failure that comes first in the chain's order: that one's text tells.
/// Who reads the chain again behind that gets a copy, of the same type: an exception that was
/// raised holds the loop's frames, which hold the chain, so it is not kept. Shared by the readers
/// of a chain. Thread safe; exceptions are dropped with the lock held.
class ThrownKeeper {
 public:
  ThrownKeeper() = default;
  ~ThrownKeeper();
  ThrownKeeper(const ThrownKeeper&) = delete;
  ThrownKeeper& operator=(const ThrownKeeper&) = delete;

  /// Keeps it, and gives the Error that goes on in its place. Needs the lock.
  Error Keep(nanobind::python_error&& thrown);
  /// Raises what goes on as `status`; returns where that is not here. Needs the lock.
  void RaiseAgain(const Status& status);
  /// A new start. Needs the lock.
  void Forget();

 private:
  struct Exception {
    nanobind::object value;
    nanobind::object traceback;  // of the thread that threw it alone; null: none
  };
  // By the text of the Error that went on. Not more than there are records under way.
  using Thrown = std::unordered_map<std::string, Exception>;

  Thrown TakeAll();

  std::mutex mutex_;  // nothing of Python's is called while it is held
  Thrown thrown_;
};

}  // namespace ringfeed::python
