#include "readers/parsers/example/entry_template.h"

#include <algorithm>
#include <vector>

#include "readers/formats/builders/wire_format.h"

namespace ringfeed {

EntryTemplate::EntryTemplate(const std::string& key, std::uint32_t number, std::uint32_t form)
    : form_(form) {
  constexpr std::size_t kBesidesKey = 10;
  constexpr std::size_t kMostByte = 127;
  const std::size_t size = key.size();
  if (size + kBesidesKey > kMostWords * sizeof(std::uint64_t)) {
    head_bytes_ = ~std::size_t{0};  // too long a key: never matches
    return;
  }
  constexpr auto kTag = [](std::uint32_t field) {
    return static_cast<std::byte>(WireTag(field, WireType::kDelimited));
  };
  std::vector<std::byte> head{kTag(1), static_cast<std::byte>(size + 8), kTag(1),
                              static_cast<std::byte>(size)};
  for (const char c : key) head.push_back(static_cast<std::byte>(c));
  for (const std::byte byte :
       {kTag(2), std::byte{4}, kTag(number), std::byte{2}, kTag(1), std::byte{0}}) {
    head.push_back(byte);
  }
  head_bytes_ = head.size();
  most_run_bytes_ = kMostByte - (size + 8);
  std::vector<std::byte> lengths(head.size());
  for (const std::size_t at : {std::size_t{1}, size + 5, size + 7, size + 9}) {
    lengths[at] = std::byte{1};
  }
  word_count_ = (head.size() + 7) / 8;
  for (std::size_t i = 0; i < word_count_; ++i) {
    Word& word = words_[i];
    word.at = std::min(8 * i, head.size() - 8);  // the last one overlaps: nothing beyond is read
    word.fixed = LoadLe<std::uint64_t>(head.data() + word.at);
    word.lengths = LoadLe<std::uint64_t>(lengths.data() + word.at);
  }
}

}  // namespace ringfeed
