#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "ringfeed/stats.h"

namespace ringfeed {

/// Counts how long each step of a loop waited, by lengths of which each is an eighth longer than
/// the one before. Thread safe; relaxed throughout: a report may be a moment old.
class StepWaitCounts {
 public:
  /// The step that is under way waited so long: it may wait several times.
  void NoteWait(std::int64_t ns) { step_ns_.fetch_add(ns, std::memory_order_relaxed); }
  /// It has its batch.
  void EndStep() {
    const std::int64_t ns = step_ns_.exchange(0, std::memory_order_relaxed);
    steps_[PlaceOf(ns)].fetch_add(1, std::memory_order_relaxed);
    std::int64_t longest = longest_ns_.load(std::memory_order_relaxed);
    while (ns > longest &&
           !longest_ns_.compare_exchange_weak(longest, ns, std::memory_order_relaxed)) {
    }
  }
  void Clear() {
    step_ns_.store(0, std::memory_order_relaxed);
    longest_ns_.store(0, std::memory_order_relaxed);
    for (auto& steps : steps_) steps.store(0, std::memory_order_relaxed);
  }

  StepWaits Sum() const {
    StepWaits sum;
    for (const auto& steps : steps_) sum.steps += steps.load(std::memory_order_relaxed);
    sum.max_s = 1e-9 * static_cast<double>(longest_ns_.load(std::memory_order_relaxed));
    sum.p50_s = std::min(ShareBelow(0.5, sum.steps), sum.max_s);
    sum.p99_s = std::min(ShareBelow(0.99, sum.steps), sum.max_s);
    return sum;
  }

 private:
  // Eight places for each power of two.
  static constexpr std::size_t kParts = 8;
  static constexpr std::size_t kPlaces = 61 * kParts;

  static std::size_t PlaceOf(std::int64_t ns) {
    const auto length = static_cast<std::uint64_t>(std::max<std::int64_t>(ns, 0));
    if (length < kParts) return static_cast<std::size_t>(length);
    const auto shift = static_cast<std::size_t>(std::bit_width(length)) - 4;
    return shift * kParts + static_cast<std::size_t>(length >> shift);
  }
  static double MostOf(std::size_t place) {
    if (place < 2 * kParts) return 1e-9 * static_cast<double>(place);
    const std::size_t shift = place / kParts - 1;
    return 1e-9 *
           std::ldexp(static_cast<double>(place - shift * kParts + 1), static_cast<int>(shift));
  }
  // What so many of all steps did not wait longer than.
  double ShareBelow(double share, std::uint64_t all) const {
    const double wanted = share * static_cast<double>(all);
    double seen = 0;
    for (std::size_t place = 0; place < kPlaces; ++place) {
      seen += static_cast<double>(steps_[place].load(std::memory_order_relaxed));
      if (seen > 0 && seen >= wanted) return MostOf(place);
    }
    return 0;
  }

  std::array<std::atomic<std::uint64_t>, kPlaces> steps_{};
  std::atomic<std::int64_t> step_ns_{0};
  std::atomic<std::int64_t> longest_ns_{0};
};

}  // namespace ringfeed
