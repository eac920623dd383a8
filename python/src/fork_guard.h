#pragma once

#include <memory>

namespace ringfeed::python {

// A process that forks has ringfeed's objects twice and its threads once. The child may not use
// what it inherited, and must not wait for threads that it does not have.

/// Notes forks from now on. Once, at import.
void WatchForks();

/// How often this process's line was forked since WatchForks.
int ForkCount() noexcept;

/// Throws std::runtime_error where the process forked since `count` was taken.
void CheckNotForked(int count);

/// Owns a T that has threads. In a forked child its memory is left alone.
template <typename T>
class OwnedHere {
 public:
  explicit OwnedHere(std::shared_ptr<T> object) : object_(std::move(object)), forks_(ForkCount()) {}
  OwnedHere(const OwnedHere&) = default;
  OwnedHere& operator=(const OwnedHere&) = default;
  ~OwnedHere() {
    if (ForkedSince()) new std::shared_ptr<T>(std::move(object_));  // for ever
  }

  bool ForkedSince() const { return forks_ != ForkCount(); }
  /// Throws in a forked child.
  T& Get() const {
    CheckNotForked(forks_);
    return *object_;
  }
  std::shared_ptr<T> Shared() const {
    CheckNotForked(forks_);
    return object_;
  }

 private:
  std::shared_ptr<T> object_;
  int forks_;
};

}  // namespace ringfeed::python
