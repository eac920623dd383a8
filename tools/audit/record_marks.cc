#include "tools/audit/record_marks.h"

#include <algorithm>
#include <bit>

namespace ringfeed::tools {

std::uint64_t* RecordMarks::WordToMark(std::uint64_t word) {
  const std::uint64_t number = word / kPageWords;
  if (number != last_page_ || last_ == nullptr) {
    auto& page = pages_[number];
    if (page == nullptr) page = std::make_unique<Page>();
    last_page_ = number;
    last_ = page.get();
  }
  return &(*last_)[word % kPageWords];
}

std::uint64_t RecordMarks::Word(std::uint64_t word) const {
  const auto page = pages_.find(word / kPageWords);
  return page == pages_.end() ? 0 : (*page->second)[word % kPageWords];
}

std::uint64_t RecordMarks::Mark(std::uint64_t first, std::uint64_t count,
                                const std::function<void(std::uint64_t)>& again) {
  const std::uint64_t end = first + count;
  std::uint64_t before = 0;
  for (std::uint64_t at = first; at < end;) {
    const std::uint64_t bit = at % kWordBits;
    const std::uint64_t bits = std::min(kWordBits - bit, end - at);
    const std::uint64_t ones =
        bits == kWordBits ? ~std::uint64_t{0} : ((std::uint64_t{1} << bits) - 1) << bit;
    std::uint64_t* const word = WordToMark(at / kWordBits);
    std::uint64_t known = *word & ones;
    *word |= ones;
    before += static_cast<std::uint64_t>(std::popcount(known));
    for (; again && known != 0; known &= known - 1) {
      again(at - bit + static_cast<std::uint64_t>(std::countr_zero(known)));
    }
    at += bits;
  }
  marked_ += count - before;
  end_ = std::max(end_, end);
  return before;
}

bool RecordMarks::Has(std::uint64_t record) const {
  return (Word(record / kWordBits) >> record % kWordBits & 1) != 0;
}

std::uint64_t RecordMarks::Common(const RecordMarks& other) const {
  std::uint64_t common = 0;
  for (const auto& [number, page] : other.pages_) {
    const auto own = pages_.find(number);
    if (own == pages_.end()) continue;
    for (std::size_t i = 0; i < kPageWords; ++i) {
      common += static_cast<std::uint64_t>(std::popcount((*page)[i] & (*own->second)[i]));
    }
  }
  return common;
}

std::vector<std::uint64_t> RecordMarks::FirstAbsent(std::uint64_t end, const RecordMarks* others,
                                                    std::size_t most) const {
  std::vector<std::uint64_t> absent;
  for (std::uint64_t word = 0; word * kWordBits < end && absent.size() < most; ++word) {
    std::uint64_t zeros = ~(Word(word) | (others == nullptr ? 0 : others->Word(word)));
    for (; zeros != 0 && absent.size() < most; zeros &= zeros - 1) {
      const auto bit = static_cast<std::uint64_t>(std::countr_zero(zeros));
      if (word * kWordBits + bit >= end) break;
      absent.push_back(word * kWordBits + bit);
    }
  }
  return absent;
}

}  // namespace ringfeed::tools
