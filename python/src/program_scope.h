#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "exceptions.h"
#include "fork_guard.h"
#include "ringfeed/compat/scope.h"

namespace ringfeed::python {

/// The variables of programs, as Python has them: readers, queues, tensors as Arrays, counters,
/// conditions, texts, and any other objects as they are. Thread safe.
class ScopeHandle {
 public:
  ScopeHandle();

  /// Throws in a forked child.
  Scope& scope() const { return scope_.Get(); }
  /// Raises KeyError if there is none.
  nanobind::object Get(const std::string& name) const;
  /// A variable keeps its type; Error(kInvalidArgument) for a value of another one.
  void Set(const std::string& name, nanobind::handle value);
  bool Has(const std::string& name) const { return scope().Has(name); }
  std::vector<std::string> Names() const { return scope().Names(); }

  /// If a Python function of the scope's readers threw the failure `status`, raises its exception.
  void RaiseThrown(const Status& status) const;

 private:
  std::vector<std::shared_ptr<ThrownKeeper>> Keepers() const;

  OwnedHere<Scope> scope_;
  mutable std::mutex mutex_;  ///< guards the following
  std::vector<std::shared_ptr<ThrownKeeper>> keepers_;
};

/// The readers that scopes hold: to be closed at exit.
std::vector<Reader> ReadersInScopes();

void BindProgramScope(nanobind::module_& module);

}  // namespace ringfeed::python
