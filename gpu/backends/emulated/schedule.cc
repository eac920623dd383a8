#include "gpu/backends/emulated/schedule.h"

#include <algorithm>
#include <vector>

namespace ringfeed {
namespace {

// Of kPriorities: one choice in so many gives a rank anew.
constexpr std::size_t kChoicesPerChange = 16;

}  // namespace

Schedule::Schedule(SchedulePolicy policy, std::uint64_t seed, int starved_stream)
    : policy_(policy), starved_stream_(starved_stream), random_(seed), host_rank_(random_()) {}

void Schedule::Admit(SimStream* stream) { stream->rank = random_(); }

std::size_t Schedule::Draw(std::size_t end) { return random_() % end; }

SimStream* Schedule::HighestRanked(std::span<SimStream* const> able) {
  SimStream* highest = *std::max_element(
      able.begin(), able.end(),
      [](const SimStream* one, const SimStream* other) { return one->rank < other->rank; });
  if (Draw(kChoicesPerChange) == 0) highest->rank = random_();
  return highest;
}

// The starved stream is passed over while there is another.
SimStream* Schedule::Choose(std::span<SimStream* const> able) {
  if (able.empty()) return nullptr;
  std::vector<SimStream*> fed;
  for (SimStream* stream : able) {
    if (!starves(*stream)) fed.push_back(stream);
  }
  if (fed.empty()) return able.front();
  switch (policy_) {
    case SchedulePolicy::kRandom:
      return fed[Draw(fed.size())];
    case SchedulePolicy::kPriorities:
      return HighestRanked(fed);
    default:
      // The one that has been able for longest: laziness must not starve anybody.
      return *std::min_element(fed.begin(), fed.end(), [](const auto* one, const auto* other) {
        return one->steps.front().ready_order < other->steps.front().ready_order;
      });
  }
}

SimStream* Schedule::ChooseAgainstHost(std::span<SimStream* const> able) {
  SimStream* chosen = Choose(able);
  if (chosen == nullptr) return nullptr;
  if (Draw(kChoicesPerChange) == 0) host_rank_ = random_();
  return chosen->rank > host_rank_ ? chosen : nullptr;
}

SimStream* Schedule::ChooseAtEnqueue(std::span<SimStream* const> able) {
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

SimStream* Schedule::ChooseInIdle(std::span<SimStream* const> able) {
  if (policy_ == SchedulePolicy::kRandom && Draw(able.size() + 1) == 0) return nullptr;
  return Choose(able);
}

SimStream* Schedule::ChooseInSync(std::span<SimStream* const> able) { return Choose(able); }

}  // namespace ringfeed
