#pragma once

#include <atomic>
#include <memory>
#include <utility>

namespace ringfeed {

/// A list of the process's, from which nothing ever goes. Thread safe, and no lock is taken: a
/// child of fork would wait for ever for one that a thread of its parent held.
template <typename T>
class LastingList {
 public:
  /// The one added first of those for which `says` is true; null if there is none. Stays valid.
  template <typename Says>
  const T* First(Says&& says) const {
    // Acquire: pairs with the release in Add, for what was made.
    return First(last_.load(std::memory_order_acquire), says);
  }
  /// False, and adds nothing, if `clashes` is true for one that is there.
  template <typename Clashes>
  bool Add(T value, Clashes&& clashes) {
    auto made = std::make_unique<Node>(std::move(value));
    // Acquire, here and on failure: as in First.
    made->before = last_.load(std::memory_order_acquire);
    do {
      if (First(made->before, clashes) != nullptr) return false;
      // Release: pairs with the acquire in First.
    } while (!last_.compare_exchange_weak(made->before, made.get(), std::memory_order_release,
                                          std::memory_order_acquire));
    (void)made.release();
    return true;
  }

 private:
  struct Node {
    explicit Node(T its_value) : value(std::move(its_value)) {}
    const T value;
    const Node* before = nullptr;
  };

  template <typename Says>
  static const T* First(const Node* last, Says&& says) {
    const T* found = nullptr;
    for (const Node* each = last; each != nullptr; each = each->before) {
      if (says(each->value)) found = &each->value;
    }
    return found;
  }

  std::atomic<const Node*> last_{nullptr};
};

}  // namespace ringfeed
