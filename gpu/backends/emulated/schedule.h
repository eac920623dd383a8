#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>

#include "gpu/backends/emulated/sim_stream.h"
#include "ringfeed/emulated_devices.h"

namespace ringfeed {

/// Chooses which stream goes on, by policy and seed: the same answers to the same questions. Not
/// for kTimed, where the clock decides.
class Schedule {
 public:
  Schedule(SchedulePolicy policy, std::uint64_t seed, int starved_stream);

  void Admit(SimStream* stream);

  /// Which of the streams that may go on does when work was just enqueued; null: none.
  SimStream* ChooseAtEnqueue(std::span<SimStream* const> able);
  /// The same while the host idles.
  SimStream* ChooseInIdle(std::span<SimStream* const> able);
  /// The same where the host waits for something: never null, but where there is none.
  SimStream* ChooseInSync(std::span<SimStream* const> able);
  /// Whether a sync runs only what it waits for.
  bool lazy() const { return policy_ == SchedulePolicy::kLazy; }
  bool starves(const SimStream& stream) const { return stream.number == starved_stream_; }
  /// A number below `end`, which is not 0.
  std::size_t Draw(std::size_t end);
  /// Whether the pieces of a batch go in any order.
  bool shuffles() const {
    return policy_ == SchedulePolicy::kRandom || policy_ == SchedulePolicy::kPriorities;
  }

 private:
  SimStream* Choose(std::span<SimStream* const> able);
  SimStream* HighestRanked(std::span<SimStream* const> able);
  SimStream* ChooseAgainstHost(std::span<SimStream* const> able);

  SchedulePolicy policy_;
  int starved_stream_;
  std::mt19937_64 random_;
  std::uint64_t host_rank_ = 0;  // the host is one of those that may go on
};

}  // namespace ringfeed
