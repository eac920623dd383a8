#include "readers/parsers/example/feature_index.h"

#include <bit>

namespace ringfeed {

FeatureIndex::FeatureIndex(const std::vector<std::string>& keys) : keys_(keys) {
  // At most a quarter full, so that an unwanted key is soon known to be missing.
  slots_.assign(std::bit_ceil(4 * keys.size() + 4), kNone);
  mask_ = slots_.size() - 1;
  for (std::uint32_t number = 0; number < keys.size(); ++number) {
    std::size_t slot = Hash(std::as_bytes(std::span(keys[number]))) & mask_;
    while (slots_[slot] != kNone) slot = (slot + 1) & mask_;
    slots_[slot] = number;
  }
}

void KeyOrder::Remember(std::size_t ordinal, std::uint32_t number) {
  // Orders of more keys than any real record has are not worth remembering.
  constexpr std::size_t kMostOrdered = 4096;
  if (ordinal >= kMostOrdered) return;
  if (ordinal >= numbers_.size()) numbers_.resize(ordinal + 1, FeatureIndex::kNone);
  numbers_[ordinal] = number;
}

}  // namespace ringfeed
