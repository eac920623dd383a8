#include "base/machine/processor_turns.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

#include "base/machine/cgroup.h"

namespace ringfeed {

namespace {

/// The number that text begins with.
std::optional<std::uint64_t> NumberAt(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  return number;
}

}  // namespace

void ProcessorTurns::Add(pid_t thread, std::string_view stat) {
  // "tid (name) S 1 2 …": a name may have spaces and brackets. Of the fields from the state on,
  // the times in user and kernel mode are the 12th and 13th.
  constexpr std::size_t kUserTime = 11;
  const std::size_t name_end = stat.rfind(") ");
  if (name_end == std::string_view::npos) return;
  std::string_view rest = stat.substr(name_end + 2);
  // It sleeps by its own will, or has ended.
  constexpr std::string_view kSleepingStates = "SIZX";
  if (kSleepingStates.find(rest.substr(0, 1)) != std::string_view::npos) return;
  for (std::size_t field = 0; field < kUserTime; ++field) {
    const std::size_t space = rest.find(' ');
    if (space == std::string_view::npos) return;
    rest.remove_prefix(space + 1);
  }
  const std::optional<std::uint64_t> user = NumberAt(rest);
  const std::optional<std::uint64_t> system = NumberAt(rest.substr(rest.find(' ') + 1));
  if (user && system) ready_[thread] = *user + *system;
}

ProcessorTurns ProcessorTurns::Now() {
  ProcessorTurns turns;
  std::error_code failure;
  for (std::filesystem::directory_iterator entry("/proc/self/task", failure), end;
       !failure && entry != end; entry.increment(failure)) {
    const std::optional<std::uint64_t> number = NumberAt(entry->path().filename().native());
    if (!number || static_cast<pid_t>(*number) == gettid()) continue;
    const std::optional<std::string> stat = FirstLineOf(entry->path() / "stat");
    if (stat) turns.Add(static_cast<pid_t>(*number), *stat);
  }
  return turns;
}

bool ProcessorTurns::SomeonePassedOverUntil(const ProcessorTurns& later) const {
  return std::any_of(ready_.begin(), ready_.end(), [&later](const auto& ready) {
    const auto then = later.ready_.find(ready.first);
    return then != later.ready_.end() && then->second == ready.second;
  });
}

}  // namespace ringfeed
