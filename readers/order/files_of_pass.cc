#include "readers/order/files_of_pass.h"

#include <numeric>
#include <utility>

#include "base/balanced_split.h"
#include "base/philox.h"

namespace ringfeed {

std::vector<std::size_t> FilesOfPass(std::size_t files, const FileOrder& order,
                                     std::uint64_t pass) {
  std::vector<std::size_t> list(files);
  std::iota(list.begin(), list.end(), std::size_t{0});
  if (order.shuffle && pass >= order.from_pass) {
    DrawSequence draws(order.seed, static_cast<std::uint32_t>(pass), DrawPurpose::kFileOrder);
    for (std::uint64_t j = list.size(); j-- > 1;) {
      std::swap(list[j], list[(std::uint64_t{draws.At(j)} * (j + 1)) >> 32]);
    }
  }
  const NumberRange part = BalancedRange(list.size(), order.ranks, order.rank);
  return {list.begin() + static_cast<std::ptrdiff_t>(part.begin),
          list.begin() + static_cast<std::ptrdiff_t>(part.end)};
}

}  // namespace ringfeed
