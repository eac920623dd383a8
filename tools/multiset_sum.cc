#include "tools/multiset_sum.h"

#include <cstddef>
#include <cstdio>

namespace ringfeed::tools {

void MultisetSum::Add(const Sha256Value& hash) {
  MultisetSum number;
  for (std::size_t i = 0; i < hash.size(); ++i) {
    number.words_[i / 8] |= std::to_integer<std::uint64_t>(hash[i]) << (8 * (i % 8));
  }
  Add(number);
}

void MultisetSum::Add(const MultisetSum& other) {
  std::uint64_t carry = 0;
  for (std::size_t i = 0; i < words_.size(); ++i) {
    const std::uint64_t with_carry = words_[i] + carry;
    carry = with_carry < carry ? 1 : 0;
    words_[i] = with_carry + other.words_[i];
    carry += words_[i] < with_carry ? 1 : 0;
  }
}

std::string MultisetSum::Hex() const {
  std::string text;
  for (std::size_t i = words_.size(); i-- > 0;) {
    char digits[17];
    std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(words_[i]));
    text += digits;
  }
  return text;
}

}  // namespace ringfeed::tools
