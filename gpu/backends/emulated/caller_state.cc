#include "gpu/backends/emulated/caller_state.h"

#include <atomic>
#include <map>
#include <utility>

namespace ringfeed {
namespace {

using States = std::map<std::pair<std::uint64_t, int>, CallerState>;

States& StatesOfThread() {
  thread_local States states;
  return states;
}

}  // namespace

std::uint64_t NewOwner() {
  static std::atomic<std::uint64_t> owners = 0;
  return owners.fetch_add(1, std::memory_order_relaxed);
}

CallerState& StateOfCaller(std::uint64_t owner, int actor) {
  return StatesOfThread()[{owner, actor}];
}

void ForgetOwner(std::uint64_t owner) {
  std::erase_if(StatesOfThread(), [&](const auto& entry) { return entry.first.first == owner; });
}

}  // namespace ringfeed
