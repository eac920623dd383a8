#pragma once

#include <utility>

namespace ringfeed {

/// While one lives, its thread holds the lock of a session, or of its node, and calls what may be
/// the user's code: a source's ReInit, Pass or name. If that code calls the same reader, it is
/// refused: it would wait for itself.
class UserCodeLocked {
 public:
  explicit UserCodeLocked(const void* owner)
      : owner_(owner), outer_(std::exchange(innermost, this)) {}
  ~UserCodeLocked() { innermost = outer_; }
  UserCodeLocked(const UserCodeLocked&) = delete;
  UserCodeLocked& operator=(const UserCodeLocked&) = delete;

  /// Whether this thread holds any of these locks.
  static bool IsAny() { return innermost != nullptr; }
  static bool IsOf(const void* owner) {
    const UserCodeLocked* at = innermost;
    while (at != nullptr && at->owner_ != owner) at = at->outer_;
    return at != nullptr;
  }

 private:
  static inline thread_local const UserCodeLocked* innermost = nullptr;

  const void* const owner_;
  const UserCodeLocked* const outer_;
};

}  // namespace ringfeed
