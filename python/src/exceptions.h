#pragma once

#include <nanobind/nanobind.h>

#include <mutex>
#include <string>
#include <unordered_map>

#include "ringfeed/status.h"

namespace ringfeed::python {

/// Raises the exception of ringfeed.errors for `status`, with its code, file, offset and record as
/// attributes. Needs the lock. A cancellation by the end of the interpreter ends the thread
/// silently (SystemExit): see NoteExit.
[[noreturn]] void Raise(const Status& status);
/// The interpreter ends: from now on a cancellation in other threads than the main one counts as
/// caused by that, because they are daemons, which no thread waits for.
void NoteExit();

/// ringfeed.Damaged, which refuses data, becomes an Error; other exceptions stay. Needs the lock.
void RethrowDamage(nanobind::python_error& thrown);

/// Maps ringfeed's exceptions to those of ringfeed.errors: Error, EndOfData (StopIteration).
void BindExceptions(nanobind::module_& module);

/// What a user's Python function threw on threads of ringfeed's, kept for the reader of the chain,
/// which gets that exception itself, with its traceback. Several threads may throw, and the first
/// in time need not be the first failure in the chain's order: the failure's text tells which it
/// is. A later read gets a copy of the same type: a raised exception holds the loop's frames, which
/// hold the chain, so it is not kept. Shared by the readers of a chain. Thread safe; exceptions are
/// dropped with the lock held.
class ThrownKeeper {
 public:
  ThrownKeeper() = default;
  ~ThrownKeeper();
  ThrownKeeper(const ThrownKeeper&) = delete;
  ThrownKeeper& operator=(const ThrownKeeper&) = delete;

  /// Keeps it, and returns the Error to throw in its place. Needs the lock.
  Error Keep(nanobind::python_error&& thrown);
  /// Raises the exception kept for `status`; returns if there is none here. Needs the lock.
  void RaiseAgain(const Status& status);
  /// For a new start. Needs the lock.
  void Forget();

 private:
  struct Exception {
    nanobind::object value;
    nanobind::object traceback;  // of the throwing thread alone; null: none
  };
  // By the text of the Error thrown in its place. No more than there are records in flight.
  using Thrown = std::unordered_map<std::string, Exception>;

  Thrown TakeAll();

  std::mutex mutex_;  // never held while Python is called
  Thrown thrown_;
};

}  // namespace ringfeed::python
