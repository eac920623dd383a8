#include "base/machine/cpu_list.h"

#include <algorithm>
#include <charconv>
#include <system_error>

namespace ringfeed {
namespace {

// More than any kernel is built for: a larger number is no CPU's.
constexpr int kMostCpus = 1 << 16;

std::optional<int> NumberOf(std::string_view text) {
  int number = 0;
  const auto result = std::from_chars(text.begin(), text.end(), number);
  if (result.ec != std::errc() || result.ptr != text.end()) return std::nullopt;
  if (number < 0 || number >= kMostCpus) return std::nullopt;
  return number;
}

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

bool AddRange(std::string_view text, CpuList* cpus) {
  const std::size_t dash = text.find('-');
  const std::optional<int> first = NumberOf(text.substr(0, dash));
  const std::optional<int> last =
      dash == std::string_view::npos ? first : NumberOf(text.substr(dash + 1));
  if (!first || !last || *last < *first) return false;
  for (int cpu = *first; cpu <= *last; ++cpu) cpus->push_back(cpu);
  return true;
}

}  // namespace

std::optional<CpuList> ParseCpuList(std::string_view text) {
  text = Trimmed(text);
  CpuList cpus;
  for (bool more = !text.empty(); more;) {
    const std::size_t comma = text.find(',');
    if (!AddRange(text.substr(0, comma), &cpus)) return std::nullopt;
    more = comma != std::string_view::npos;
    if (more) text.remove_prefix(comma + 1);
  }
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return cpus;
}

std::string CpuListToString(const CpuList& cpus) {
  std::string text;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(cpus[i]);
    if (last > i) text += "-" + std::to_string(cpus[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace ringfeed
