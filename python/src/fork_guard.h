#pragma once

#include <atomic>
#include <memory>

namespace ringfeed::python {

// A process that forks has ringfeed's objects twice and its threads once. The child may not use
// what it inherited, and must not wait for threads that it does not have.

/// Notes forks from now on. Call once, at import.
void WatchForks();

/// The number of forks in this process's line of descent since WatchForks.
int ForkCount() noexcept;

/// Throws std::runtime_error if the process was forked since `count` was taken.
void CheckNotForked(int count);

/// One object for each process: the first Get makes it, and it is never destroyed, since it
/// outlives everything that ends at exit. A forked child makes its own and leaves its parent's
/// alone, because threads that the child does not have may have been changing it, or held its
/// locks. For static objects. Thread safe.
template <typename T>
class OneInProcess {
 public:
  constexpr OneInProcess() = default;
  OneInProcess(const OneInProcess&) = delete;
  OneInProcess& operator=(const OneInProcess&) = delete;

  T& Get() {
    // Order: acquire pairs with the release below, for what was made.
    Owned* owned = owned_.load(std::memory_order_acquire);
    if (IsHere(owned)) return owned->object;
    auto* const made = new Owned;
    made->parents = owned;
    // Order: release hands over what was made to the acquires here and above.
    while (!owned_.compare_exchange_weak(owned, made, std::memory_order_acq_rel,
                                         std::memory_order_acquire)) {
      if (!IsHere(owned)) continue;
      delete made;
      return owned->object;
    }
    return made->object;
  }

 private:
  struct Owned {
    const int forks = ForkCount();
    T object{};
    Owned* parents = nullptr;  // kept, so that no search for leaks finds it
  };
  static bool IsHere(const Owned* owned) { return owned != nullptr && owned->forks == ForkCount(); }

  std::atomic<Owned*> owned_{nullptr};
};

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
