#include "base/edit_distance.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

namespace ringfeed {
namespace {

constexpr std::size_t kMostCompared = 100;  // bytes of a name

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

}  // namespace

std::size_t EditDistance(std::string_view one, std::string_view other) {
  one = one.substr(0, kMostCompared);
  other = other.substr(0, kMostCompared);
  std::vector<std::size_t> two_before(other.size() + 1);
  std::vector<std::size_t> before(other.size() + 1);
  std::vector<std::size_t> row(other.size() + 1);
  for (std::size_t j = 0; j < row.size(); ++j) row[j] = 2 * j;
  for (std::size_t i = 1; i <= one.size(); ++i) {
    std::swap(two_before, before);
    std::swap(before, row);
    row[0] = 2 * i;
    for (std::size_t j = 1; j <= other.size(); ++j) {
      const char a = one[i - 1];
      const char b = other[j - 1];
      const std::size_t changed = a == b ? 0 : Lower(a) == Lower(b) ? 1 : 2;
      row[j] = std::min({before[j - 1] + changed, before[j] + 2, row[j - 1] + 2});
      const bool exchanged = i > 1 && j > 1 && a == other[j - 2] && b == one[i - 2];
      if (exchanged) row[j] = std::min(row[j], two_before[j - 2] + 2);
    }
  }
  return row.back();
}

const std::string* NearestName(std::string_view name, std::span<const std::string> names) {
  const std::string* nearest = nullptr;
  std::size_t least = std::numeric_limits<std::size_t>::max();
  for (const std::string& each : names) {
    const std::size_t distance = EditDistance(name, each);
    if (distance >= least) continue;
    least = distance;
    nearest = &each;
  }
  return nearest;
}

std::string DidYouMean(std::string_view name, std::span<const std::string> names) {
  const std::string* const nearest = NearestName(name, names);
  if (nearest == nullptr || 3 * EditDistance(name, *nearest) > 2 * nearest->size()) return {};
  return "; did you mean " + *nearest + "?";
}

std::string DidYouMeanWord(std::string_view word, std::span<const std::string> names) {
  const std::size_t equals = word.find('=');
  const std::string_view key = equals == std::string_view::npos ? word : word.substr(0, equals + 1);
  if (std::find(names.begin(), names.end(), key) != names.end()) return {};
  std::string meant = DidYouMean(word, names);
  return meant.empty() ? DidYouMean(key, names) : meant;
}

}  // namespace ringfeed
