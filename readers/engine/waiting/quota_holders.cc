#include "readers/engine/waiting/quota_holders.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace ringfeed {
namespace {

constexpr std::size_t kNamed = 3;

struct Holding {
  std::size_t bytes = 0;
  std::string name;
};
struct Holdings {
  std::mutex mutex;
  std::map<std::pair<const Arena*, const void*>, Holding> all;  // guarded by mutex
};
Holdings& TheHoldings() {
  static auto* const holdings = new Holdings;  // never destroyed: pipelines may be later still
  return *holdings;
}

}  // namespace

QuotaHolders& QuotaHolders::All() {
  static QuotaHolders holders;
  return holders;
}

void QuotaHolders::Note(const Arena& arena, const void* holder, std::size_t bytes,
                        const std::string& name) {
  Holdings& holdings = TheHoldings();
  const std::lock_guard lock(holdings.mutex);
  if (bytes == 0) {
    holdings.all.erase({&arena, holder});
  } else {
    holdings.all[{&arena, holder}] = {bytes, name};
  }
}

std::string QuotaHolders::Describe(const Arena& arena) const {
  struct Sum {
    std::size_t bytes = 0;
    std::size_t pipelines = 0;
  };
  std::map<std::string, Sum> sums;
  {
    Holdings& holdings = TheHoldings();
    const std::lock_guard lock(holdings.mutex);
    for (const auto& [key, holding] : holdings.all) {
      if (key.first != &arena) continue;
      sums[holding.name].bytes += holding.bytes;
      ++sums[holding.name].pipelines;
    }
  }
  std::vector<std::pair<std::string, Sum>> order(sums.begin(), sums.end());
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
  std::string text;
  for (std::size_t i = 0; i < std::min(order.size(), kNamed); ++i) {
    const auto& [name, sum] = order[i];
    const bool one = sum.pipelines == 1;
    text += (i == 0 ? "" : ", ") +
            (one ? "a pipeline" : std::to_string(sum.pipelines) + " pipelines") + " of " + name +
            (one ? " holds " : " hold ") + std::to_string(sum.bytes) + " bytes";
  }
  if (order.size() > kNamed) text += ", and others more";
  return text;
}

}  // namespace ringfeed
