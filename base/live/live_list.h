#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/process_number.h"

namespace ringfeed {

/// The things of one kind (chains, feeds, queues) that live in this process, as `Counts` of each,
/// for an observer outside it. The list keeps nothing alive: a member leaves when it ends, and
/// waits at most for one look at itself. Its last counts can still be seen until a new member takes
/// its number.
///
/// A number is the smallest one that no member has. So one that is made anew for every pass keeps
/// its number, and there are never more numbers than members at a time.
///
/// Thread safe. In a child of fork, members of the parent's list leave without touching it, because
/// threads that do not exist there may hold its locks. Get one from PerProcess.
template <typename Counts>
class LiveList {
 private:
  static constexpr int kLastLooks = 1000;
  struct Place;

 public:
  /// Fills in the counts so far. False: it would have to wait, and the last counts stand. Called by
  /// one thread at a time, with the counts it filled in last. Must not wait and must not call this
  /// list.
  using Count = std::function<bool(Counts* counts)>;

  /// A member's hold on its place. Move only; destroying it is Leave.
  class Membership {
   public:
    Membership() = default;
    ~Membership() { Leave(); }
    Membership(Membership&&) noexcept = default;
    Membership& operator=(Membership&& other) noexcept {
      if (this != &other) {
        Leave();
        place_ = std::move(other.place_);
      }
      return *this;
    }

    /// Counts a last time; from then on the member is seen as ended. After it, what Count needs may
    /// be destroyed. Do not call it under a lock that Count takes. A second call changes nothing.
    void Leave() noexcept {
      const std::shared_ptr<Place> place = std::move(place_);
      if (place == nullptr || place->process != ProcessNumber()) return;
      const std::lock_guard lock(place->mutex);
      // Another holder of the lock lets go at once, and the last counts are worth a moment's wait.
      for (int look = 0; !place->Look() && look < kLastLooks; ++look) std::this_thread::yield();
      place->count = nullptr;
      place->ended.store(true, std::memory_order_relaxed);
    }
    explicit operator bool() const { return place_ != nullptr; }

   private:
    friend class LiveList;
    explicit Membership(std::shared_ptr<Place> place) : place_(std::move(place)) {}
    std::shared_ptr<Place> place_;
  };

  /// A member as it is seen.
  struct Seen {
    std::size_t number = 0;
    const std::string& name;
    bool ended = false;
    const Counts& counts;
  };

  Membership Enter(std::string name, Count count) {
    const std::lock_guard lock(mutex_);
    std::size_t number = 0;
    while (number < places_.size() && !places_[number]->ended.load(std::memory_order_relaxed)) {
      ++number;
    }
    auto place = std::make_shared<Place>(number, std::move(name), std::move(count));
    if (number == places_.size()) {
      places_.push_back(place);
    } else {
      places_[number] = place;
    }
    return Membership(std::move(place));
  }

  /// Looks at the first `most` members, in the order of their numbers: visit(Seen). Those that
  /// could not be counted yet are left out. Returns how many members there are, ended ones too.
  template <typename Visit>
  std::size_t ForEach(std::size_t most, Visit&& visit) const {
    std::vector<std::shared_ptr<Place>> places;
    {
      const std::lock_guard lock(mutex_);
      places = places_;
    }
    const std::size_t all = places.size();
    places.resize(std::min(most, all));
    for (const std::shared_ptr<Place>& place : places) {
      const std::lock_guard lock(place->mutex);
      (void)place->Look();
      if (!place->counted) continue;
      visit(Seen{place->number, place->name, !place->count, place->last});
    }
    return all;
  }

 private:
  struct Place {
    Place(std::size_t its_number, std::string its_name, Count its_count)
        : number(its_number), name(std::move(its_name)), count(std::move(its_count)) {}
    bool Look() {
      try {
        if (!count || !count(&last)) return false;
      } catch (const std::bad_alloc&) {
        return false;  // no memory must end neither a look nor a Leave
      }
      counted = true;
      return true;
    }
    const std::uint64_t process = ProcessNumber();
    const std::size_t number;
    const std::string name;
    std::atomic<bool> ended{false};
    std::mutex mutex;  ///< guards what follows
    Count count;       ///< empty: it has left
    Counts last{};
    bool counted = false;
  };

  mutable std::mutex mutex_;  ///< guards places_; never held while a place's is taken
  std::vector<std::shared_ptr<Place>> places_;  ///< by number
};

}  // namespace ringfeed
