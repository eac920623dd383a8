#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>

#include "ringfeed/devices/emulated_devices.h"

namespace ringfeed {

struct EmulatedStream;

/// Chooses the stream that goes on, by policy and seed: the same answers to the same questions. Not
/// for kTimed: there the clock decides.
class Schedule {
 public:
  explicit Schedule(const EmulatedOptions& options);

  void Admit(EmulatedStream* stream);

  /// Which of the able streams goes on after work was enqueued; null: none.
  EmulatedStream* ChooseAtEnqueue(std::span<EmulatedStream* const> able);
  /// The same while the host idles.
  EmulatedStream* ChooseInIdle(std::span<EmulatedStream* const> able);
  /// The same while the host waits for something: null only if no stream is able.
  EmulatedStream* Choose(std::span<EmulatedStream* const> able);
  /// Whether a sync runs only what it waits for.
  bool lazy() const { return policy_ == SchedulePolicy::kLazy; }
  bool starves(const EmulatedStream& stream) const;
  /// A number below `end`, which is not 0.
  std::size_t Draw(std::size_t end) { return random_() % end; }
  /// Whether the pieces of a batch go in any order.
  bool shuffles() const {
    return policy_ == SchedulePolicy::kRandom || policy_ == SchedulePolicy::kPriorities;
  }

 private:
  EmulatedStream* HighestRanked(std::span<EmulatedStream* const> able);
  EmulatedStream* ChooseAgainstHost(std::span<EmulatedStream* const> able);

  SchedulePolicy policy_;
  int starved_stream_;
  std::mt19937_64 random_;
  std::uint64_t host_rank_ = 0;  // the host is one of those that may go on
};

}  // namespace ringfeed
