#pragma once

#include <atomic>
#include <cstdint>

#include "base/process_number.h"

namespace ringfeed {

/// One object for each process: the first Get makes it, and it is never destroyed. A child of fork
/// makes its own and leaves its parent's alone, because at the moment of the fork threads of the
/// parent may have been changing it, or held its locks. For static objects; T is made without
/// arguments.
///
/// Thread safe, and safe in a child of fork whatever other threads did then: no lock is taken. If
/// several first calls come at once, each makes one, and all but one are destroyed.
template <typename T>
class PerProcess {
 public:
  constexpr PerProcess() = default;
  PerProcess(const PerProcess&) = delete;
  PerProcess& operator=(const PerProcess&) = delete;

  T& Get() {
    const std::uint64_t process = ProcessNumber();
    // Acquire: pairs with the release below, for what was made.
    Owned* owned = owned_.load(std::memory_order_acquire);
    if (owned != nullptr && owned->process == process) return owned->object;
    auto* const made = new Owned(process);
    // Release: hands over what was made. Acquire, on failure: takes over what another made.
    while (!owned_.compare_exchange_weak(owned, made, std::memory_order_release,
                                         std::memory_order_acquire)) {
      if (owned == nullptr || owned->process != process) continue;
      delete made;
      return owned->object;
    }
    made->parents = owned;
    return made->object;
  }

 private:
  struct Owned {
    explicit Owned(std::uint64_t its_process) : process(its_process) {}
    const std::uint64_t process;
    T object{};
    Owned* parents = nullptr;  ///< kept, so that no search for leaks finds it
  };
  std::atomic<Owned*> owned_{nullptr};
};

}  // namespace ringfeed
