#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/mixed_hash.h"

namespace ringfeed {

/// The extensions of a sample's members in their order, as far as they are kept.
using TarExtensions = std::vector<std::string>;

/// Tells the end of a sample if the next one has the same key: no sample has two members of one
/// extension. If the members are very many it keeps only hashes of the later ones.
class TarMembers {
 public:
  bool Has(std::string_view extension) const {
    return std::find(first_.begin(), first_.end(), extension) != first_.end() ||
           (!others_.empty() && others_.contains(HashOf(extension)));
  }
  void Add(std::string_view extension) {
    if (first_.size() < kMostKept) {
      first_.emplace_back(extension);
    } else {
      others_.insert(HashOf(extension));
    }
  }
  void Clear() {
    first_.clear();
    others_.clear();
  }
  /// Cuts the kept ones to the first `count`.
  void CutTo(std::size_t count) { first_.resize(std::min(count, first_.size())); }

  const TarExtensions& first() const { return first_; }
  void SwapFirst(TarExtensions* other) { first_.swap(*other); }

 private:
  /// With more members, less is known to guess a damaged header's owner.
  static constexpr std::size_t kMostKept = 64;

  static std::uint64_t HashOf(std::string_view text) { return MixedHash().Add(text).value(); }

  TarExtensions first_;
  std::unordered_set<std::uint64_t> others_;
};

}  // namespace ringfeed
