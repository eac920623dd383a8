#include "base/edit_distance.h"

#include <algorithm>
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
  std::vector<std::size_t> row(other.size() + 1);
  for (std::size_t i = 0; i < row.size(); ++i) row[i] = 2 * i;
  for (std::size_t i = 0; i < one.size(); ++i) {
    std::size_t before = row[0];  // of the row before, one to the left
    row[0] = 2 * (i + 1);
    for (std::size_t j = 0; j < other.size(); ++j) {
      const std::size_t changed = one[i] == other[j] ? 0 : Lower(one[i]) == Lower(other[j]) ? 1 : 2;
      const std::size_t best = std::min({before + changed, row[j] + 2, row[j + 1] + 2});
      before = std::exchange(row[j + 1], best);
    }
  }
  return row.back();
}

}  // namespace ringfeed
