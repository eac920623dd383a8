#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/little_endian.h"
#include "readers/parsers/parser.h"
#include "ringfeed/record.h"

namespace ringfeed {

/// How one record was made up: its size, the bytes around its fields' values, and where these
/// stand. A record of the same size with the same bytes around is located by comparing them, a few
/// words; so it is with rows of numbers and labels. Where records are not alike it gives up. A
/// thread's own.
class RecordLayout {
 public:
  /// Where a field stands in every record of the layout.
  struct Run {
    std::size_t at;
    std::uint32_t bytes;
    std::uint32_t form;

    FieldLocation In(const RecordSpan& record) const { return {record.data + at, bytes, 0, form}; }
  };

  /// True where the record is made up as the one that was learned: its fields stand in runs().
  bool Match(const RecordSpan& record) const {
    if (record.size != record_bytes_) return false;
    Bits differs{};
    for (std::size_t i = 0; i < word_count_; ++i) {
      const Word& word = words_[i];
      differs |= (LoadLe<Bits>(record.data + word.at) & word.mask) ^ word.value;
    }
    return (differs[0] | differs[1]) == 0;
  }
  std::span<const Run> runs() const { return {runs_.data(), run_count_}; }

  /// To be told how many records matched.
  void Matched(std::size_t records) {
    if (records == 0) return;
    misses_ = 0;
    patience_ +=
        static_cast<int>(std::min(records, static_cast<std::size_t>(kMostPatience - patience_)));
  }
  /// The same, and fills in the locations of these records.
  void Locate(std::span<const RecordSpan> matched, FieldLocation* locations) {
    Matched(matched.size());
    for (const RecordSpan& record : matched) {
      for (const Run& run : runs()) *locations++ = run.In(record);
    }
  }
  /// To be told of a record that did not match and was located otherwise: by its bytes outside of
  /// these runs alone.
  void Note(const RecordSpan& record, std::span<const FieldLocation> locations) {
    constexpr int kMissesBefore = 4;
    if (patience_ <= 0 || ++misses_ < kMissesBefore) return;
    Learn(record, locations);
  }

 private:
  static constexpr std::size_t kMostWords = 16;
  static constexpr std::size_t kMostRuns = 16;
  // As many as every processor compares at once.
  using Bits [[gnu::vector_size(16)]] = std::uint64_t;
  struct Word {
    std::size_t at;
    Bits mask;
    Bits value;
  };
  // Learning costs as much as so many matches save.
  static constexpr int kLearningCost = 64;
  static constexpr int kMostPatience = 1024;

  void Learn(const RecordSpan& record, std::span<const FieldLocation> locations);

  static constexpr std::size_t kNoRecord = ~std::size_t{0};

  std::size_t record_bytes_ = kNoRecord;
  // In place: what is compared is read for every record.
  std::size_t word_count_ = 0;
  std::size_t run_count_ = 0;
  std::array<Word, kMostWords> words_;
  std::array<Run, kMostRuns> runs_;
  int misses_ = 0;
  int patience_ = 8 * kLearningCost;
};

}  // namespace ringfeed
