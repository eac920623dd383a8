#pragma once

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
  /// True where the record is made up as the one that was learned; then all locations are filled
  /// in.
  bool Match(const RecordSpan& record, FieldLocation* locations) {
    if (record.size != record_bytes_) return false;
    std::uint64_t differs = 0;
    for (std::size_t i = 0; i < word_count_; ++i) {
      const Word& word = words_[i];
      differs |= (LoadLe<std::uint64_t>(record.data + word.at) & word.mask) ^ word.value;
    }
    if (differs != 0) return false;
    for (std::size_t i = 0; i < run_count_; ++i) {
      const Run& run = runs_[i];
      *locations++ = {record.data + run.at, run.bytes, 0, run.form};
    }
    misses_ = 0;
    patience_ += patience_ < kMostPatience ? 1 : 0;
    return true;
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
  struct Word {
    std::size_t at;
    std::uint64_t mask;
    std::uint64_t value;
  };
  struct Run {
    std::size_t at;
    std::uint32_t bytes;
    std::uint32_t form;
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
