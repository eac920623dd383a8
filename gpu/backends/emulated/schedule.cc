#include "gpu/backends/emulated/schedule.h"

#include <algorithm>
#include <vector>

#include "gpu/backends/emulated/executor.h"

namespace ringfeed {
namespace {

// For kPriorities: one choice in so many draws a new rank.
constexpr std::size_t kChoicesPerChange = 16;

}  // namespace

Schedule::Schedule(const EmulatedOptions& options)
    : policy_(options.policy),
      starved_stream_(options.starved_stream),
      random_(options.seed),
      host_rank_(random_()) {}

void Schedule::Admit(EmulatedStream* stream) { stream->rank = random_(); }

bool Schedule::starves(const EmulatedStream& stream) const {
  return stream.number == starved_stream_;
}

EmulatedStream* Schedule::HighestRanked(std::span<EmulatedStream* const> able) {
  EmulatedStream* highest =
      *std::max_element(able.begin(), able.end(),
                        [](const auto* one, const auto* other) { return one->rank < other->rank; });
  if (Draw(kChoicesPerChange) == 0) highest->rank = random_();
  return highest;
}

// Passes over the starved stream if there is another.
EmulatedStream* Schedule::Choose(std::span<EmulatedStream* const> able) {
  if (able.empty()) return nullptr;
  std::vector<EmulatedStream*> fed;
  for (EmulatedStream* stream : able) {
    if (!starves(*stream)) fed.push_back(stream);
  }
  if (fed.empty()) return able.front();
  switch (policy_) {
    case SchedulePolicy::kRandom:
      return fed[Draw(fed.size())];
    case SchedulePolicy::kPriorities:
      return HighestRanked(fed);
    default:
      // The stream that has been able for longest: laziness must not starve any stream.
      return *std::min_element(fed.begin(), fed.end(), [](const auto* one, const auto* other) {
        return one->steps.front().ready_order < other->steps.front().ready_order;
      });
  }
}

EmulatedStream* Schedule::ChooseAgainstHost(std::span<EmulatedStream* const> able) {
  EmulatedStream* chosen = Choose(able);
  if (chosen == nullptr) return nullptr;
  if (Draw(kChoicesPerChange) == 0) host_rank_ = random_();
  return chosen->rank > host_rank_ ? chosen : nullptr;
}

EmulatedStream* Schedule::ChooseAtEnqueue(std::span<EmulatedStream* const> able) {
  if (able.empty() || (able.size() == 1 && starves(*able.front()))) return nullptr;
  switch (policy_) {
    case SchedulePolicy::kEager:
      return Choose(able);
    case SchedulePolicy::kRandom:
      return Draw(2) == 0 ? Choose(able) : nullptr;
    case SchedulePolicy::kPriorities:
      return ChooseAgainstHost(able);
    default:
      return nullptr;
  }
}

EmulatedStream* Schedule::ChooseInIdle(std::span<EmulatedStream* const> able) {
  if (policy_ == SchedulePolicy::kRandom && Draw(able.size() + 1) == 0) return nullptr;
  return Choose(able);
}

}  // namespace ringfeed
