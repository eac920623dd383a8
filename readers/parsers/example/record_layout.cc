#include "readers/parsers/example/record_layout.h"

#include <algorithm>
#include <vector>

#include "readers/parsers/example/feature_location.h"

namespace ringfeed {

void RecordLayout::Learn(const RecordSpan& record, std::span<const FieldLocation> locations) {
  constexpr std::size_t kWord = sizeof(Bits);
  constexpr std::size_t kMostBytes = 4096;
  misses_ = 0;
  patience_ -= kLearningCost;
  record_bytes_ = kNoRecord;
  word_count_ = run_count_ = 0;
  if (record.size < kWord || record.size > kMostBytes || locations.size() > kMostRuns) return;
  std::vector<std::byte> mask(record.size, std::byte{0xff});
  for (const FieldLocation& at : locations) {
    const bool is_run = at.form >= kFormBytes && at.form <= kFormInt64s;
    if (!is_run && at.form != kFormMissing) return;
    const std::size_t begin = is_run ? static_cast<std::size_t>(at.data - record.data) : 0;
    runs_[run_count_++] = {begin, at.bytes, at.form};
    std::fill_n(mask.begin() + static_cast<std::ptrdiff_t>(begin), at.bytes, std::byte{});
  }
  for (std::size_t at = 0; at < record.size;) {
    const std::size_t begin = std::min(at, record.size - kWord);
    const auto bits = LoadLe<Bits>(mask.data() + begin);
    // The next word starts where there is something to compare.
    if (mask[at] == std::byte{}) {
      ++at;
      continue;
    }
    if (word_count_ == kMostWords) return;
    words_[word_count_++] = {begin, bits, LoadLe<Bits>(record.data + begin) & bits};
    at = begin + kWord;
  }
  record_bytes_ = record.size;
}

}  // namespace ringfeed
