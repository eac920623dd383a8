#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "ringfeed/detail/queue_policy.h"

namespace ringfeed {

/// A stack of the numbers 0 .. n-1, each of which is on it at most once. It is lock-free in the
/// strict sense: wherever a thread is stopped, the others go on. Last in, first out: what was given
/// back last is taken next, while it is in the cache.
///
/// One word holds the number on top and counts what was given back, so that a taker that was
/// stopped does not mistake a later top for the one that it saw. With a million numbers the count
/// comes around after 2^43 of them, and has to stand exactly where it stood.
///
/// Progress: every method is lock-free and makes no system call.
/// Thread safety: every method but the destructor may be called by any thread at any time, as long
/// as no number is given that is on the stack.
template <typename Policy>
class IndexStack {
  using Orders = typename Policy::Orders;
  using Word = typename Policy::template Atomic<std::uint64_t>;

 public:
  /// With all numbers below `count`, which is 1 or more; 0 is on top. Throws std::bad_alloc.
  explicit IndexStack(std::size_t count)
      : bits_(static_cast<int>(std::bit_width(count))), none_(count), top_(0) {
    below_ = static_cast<Word*>(::operator new(count * sizeof(Word), kAlign));
    for (std::size_t i = 0; i < count; ++i) ::new (&below_[i]) Word(i + 1);
  }
  ~IndexStack() {
    std::destroy_n(below_, none_);
    ::operator delete(below_, kAlign);
  }
  IndexStack(const IndexStack&) = delete;
  IndexStack& operator=(const IndexStack&) = delete;

  /// Takes the number on top. False: there is none.
  bool Take(std::uint64_t& index) noexcept {
    for (;;) {
      // Order: partner of Give, whose caller left the cell and who wrote what is below.
      std::uint64_t top = top_.load(Orders::kFreeLook);
      index = IndexOf(top);
      if (index == none_) return false;
      // May be of a later time: then the top is another one by now.
      const std::uint64_t below = below_[index].load(std::memory_order_relaxed);
      // Relaxed: it has acquired what it takes, and every write of the top is a read-modify-write,
      // so what was given back before stays visible to whoever reads this one.
      if (top_.compare_exchange_weak(top, top - index + below, std::memory_order_relaxed,
                                     std::memory_order_relaxed)) {
        return true;
      }
    }
  }

  /// Puts a number on top.
  void Give(std::uint64_t index) noexcept {
    std::uint64_t top = top_.load(std::memory_order_relaxed);
    for (;;) {
      below_[index].store(IndexOf(top), std::memory_order_relaxed);
      const std::uint64_t next = ((top >> bits_) + 1) << bits_ | index;
      // Order: partner of Take; before the look for waiters.
      if (top_.compare_exchange_weak(top, next, Orders::kFreeGive, std::memory_order_relaxed)) {
        return;
      }
    }
  }

  /// Whether none is left; writes nothing.
  // Order: as in Take.
  bool IsEmpty() const noexcept { return IndexOf(top_.load(Orders::kFreeLook)) == none_; }

 private:
  static constexpr std::align_val_t kAlign{kQueueLineBytes};

  std::uint64_t IndexOf(std::uint64_t top) const noexcept {
    return top & ((std::uint64_t{1} << bits_) - 1);
  }

  const int bits_;
  const std::uint64_t none_;
  Word* below_ = nullptr;
  alignas(kQueueLineBytes) Word top_;
};

}  // namespace ringfeed
