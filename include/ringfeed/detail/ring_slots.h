#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "ringfeed/detail/queue_policy.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// The slots that both rings are made of: an array of {sequence, item}, with position p in slot p
/// mod capacity. A slot is empty for position p when its sequence is FreeFor(p), and holds the item
/// of position p when it is ReadyAt(p). The ring decides which thread may change a slot next;
/// writing the sequence hands the slot over.
///
/// One allocation, at construction. Any capacity from 1 works; a power of two saves a division
/// per access. Positions never wrap: 2^63 of them last for centuries.
template <typename T, typename Policy>
class RingSlots {
  static_assert(std::is_nothrow_move_constructible_v<T>,
                "an item is moved between claim and publish, where nothing may throw");
  static_assert(std::is_nothrow_destructible_v<T>);

 public:
  using Word = typename Policy::template Atomic<std::uint64_t>;

  class Slot {
   public:
    Word sequence;

    T& item() noexcept { return *std::launder(reinterpret_cast<T*>(storage_)); }
    void Construct(T&& value) noexcept { ::new (static_cast<void*>(storage_)) T(std::move(value)); }
    void Destroy() noexcept { std::destroy_at(&item()); }

    explicit Slot(std::uint64_t first) noexcept : sequence(first) {}

   private:
    alignas(T) std::byte storage_[sizeof(T)];
  };

  /// Throws Error(kInvalidArgument) for a capacity of 0 and std::bad_alloc.
  explicit RingSlots(std::size_t capacity)
      : capacity_(capacity), mask_((capacity & (capacity - 1)) == 0 ? capacity - 1 : 0) {
    if (capacity == 0) throw Error(Status(StatusCode::kInvalidArgument, "ring: capacity is 0"));
    if (capacity > std::numeric_limits<std::size_t>::max() / sizeof(Cell) / 2) {
      throw std::bad_alloc();
    }
    cells_ = static_cast<Cell*>(::operator new(capacity * sizeof(Cell), kAlign));
    for (std::size_t i = 0; i < capacity; ++i) ::new (&cells_[i]) Cell(FreeFor(i));
  }
  ~RingSlots() {
    std::destroy_n(cells_, capacity_);
    ::operator delete(cells_, kAlign);
  }
  RingSlots(const RingSlots&) = delete;
  RingSlots& operator=(const RingSlots&) = delete;

  static constexpr std::uint64_t FreeFor(std::uint64_t position) noexcept { return 2 * position; }
  static constexpr std::uint64_t ReadyAt(std::uint64_t position) noexcept {
    return 2 * position + 1;
  }
  /// What the slot of `position` becomes when its item has been taken.
  std::uint64_t FreeAfter(std::uint64_t position) const noexcept {
    return FreeFor(position + capacity_);
  }

  std::size_t capacity() const noexcept { return capacity_; }

  Slot& At(std::uint64_t position) const noexcept {
    if (mask_ != 0) [[likely]] {
      return cells_[position & mask_];
    }
    return cells_[position % capacity_];
  }

 private:
  struct alignas(std::max(Policy::kCellAlign, alignof(Slot))) Cell : Slot {
    using Slot::Slot;
  };
  static constexpr std::align_val_t kAlign{std::max(kQueueLineBytes, alignof(Cell))};

  const std::size_t capacity_;
  const std::size_t mask_;
  Cell* cells_ = nullptr;
};

}  // namespace ringfeed
