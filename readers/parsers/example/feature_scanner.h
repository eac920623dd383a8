#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/little_endian.h"
#include "readers/parsers/example/feature_field.h"
#include "readers/parsers/example/feature_index.h"
#include "readers/parsers/example/feature_values.h"
#include "readers/parsers/parser.h"
#include "ringfeed/record.h"

namespace ringfeed {

/// The bytes in front of a feature's one packed run, as nearly all writers write them:
///   0a L 0a k key 12 V kind W 0a P
/// Four of them are lengths that grow with the run's. If all fit into one byte, the rest is the
/// same in every record, and one comparison of a few words replaces the parsing.
class EntryTemplate {
 public:
  /// `number`: of the kind's field. A run that is found has the location `form`.
  EntryTemplate(const std::string& key, std::uint32_t number, std::uint32_t form);

  /// True if the bytes start with this entry; then *location is its run.
  bool Match(std::span<const std::byte> bytes, FieldLocation* location) const {
    const std::byte* const at = bytes.data();
    if (bytes.size() < head_bytes_) return false;
    const auto run = Settled(std::to_integer<std::uint64_t>(at[head_bytes_ - 1]));
    if (run > most_run_bytes_ || run > bytes.size() - head_bytes_) return false;
    std::uint64_t other = words_[0].Differs(at, run) | words_[1].Differs(at, run);
    for (std::size_t i = 2; i < word_count_; ++i) other |= words_[i].Differs(at, run);
    if (other != 0) return false;
    *location = {at + head_bytes_, static_cast<std::uint32_t>(run), 0, form_};
    return true;
  }

 private:
  static constexpr std::size_t kMostWords = 6;
  struct Word {
    std::uint64_t fixed = 0;
    std::uint64_t lengths = 0;  // 1 in every byte to which the run's length is added
    std::size_t at = 0;

    std::uint64_t Differs(const std::byte* entry, std::uint64_t run) const {
      return LoadLe<std::uint64_t>(entry + at) ^ (fixed + run * lengths);
    }
  };

  std::size_t head_bytes_ = 0;
  std::uint64_t most_run_bytes_ = 0;
  std::size_t word_count_ = 0;
  std::uint32_t form_ = 0;
  std::array<Word, kMostWords> words_;
};

/// The layout of one record: its size, the bytes around its fields' values, and the places of
/// these. A record of the same size with the same bytes around is located by comparing a few words;
/// rows of numbers and labels are like this. It gives up if records are not alike. Belongs to one
/// thread.
class RecordLayout {
 public:
  /// The place of a field in every record of the layout.
  struct Run {
    std::size_t at;
    std::uint32_t bytes;
    std::uint32_t form;

    FieldLocation In(const RecordSpan& record) const { return {record.data + at, bytes, 0, form}; }
  };

  /// True if the record has the learned layout: its fields are at runs().
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

  /// Call with the number of records that matched.
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
  /// Call for a record that did not match and was located otherwise, by nothing but its bytes
  /// outside of these runs.
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
  // In place: matching reads this for every record.
  std::size_t word_count_ = 0;
  std::size_t run_count_ = 0;
  std::array<Word, kMostWords> words_;
  std::array<Run, kMostRuns> runs_;
  int misses_ = 0;
  int patience_ = 8 * kLearningCost;
};

/// Finds the features of a record in its map, or in its map of lists. Immutable, thread safe.
class FeatureScanner {
 public:
  enum class Map { kFeatures, kLists };

  /// `dialect` must live as long as the scanner.
  FeatureScanner(const FeatureDialect& dialect, Map map, std::span<const FeatureField> fields);

  std::size_t fields() const { return field_count_; }

  /// What a thread remembers of the record before.
  struct Memory {
    KeyOrder order;
    RecordLayout layout;
  };

  /// Fills locations[field] of every field. False if the record is none of the dialect. Does not
  /// look into features that are not asked for, and does not check values yet.
  bool Scan(const RecordSpan& record, FieldLocation* locations, Memory* memory) const {
    if (!memory->layout.Match(record)) return ScanRecord(record, locations, memory);
    memory->layout.Locate({&record, 1}, locations);
    return true;
  }

 private:
  /// How far a scan has come.
  struct Progress {
    std::size_t ordinal = 0;    // of the next entry
    std::size_t templates = 0;  // entries that were as usual, and asked for
  };

  bool ScanRecord(const RecordSpan& record, FieldLocation* locations, Memory* memory) const;
  bool ScanMap(std::span<const std::byte> map, FieldLocation* locations, KeyOrder* order,
               Progress* progress) const;
  std::uint32_t FindUsual(std::span<const std::byte> bytes, std::uint32_t expected) const;
  bool ScanTemplate(UsualReader* map, FieldLocation* locations, KeyOrder* order,
                    std::size_t ordinal) const;
  bool ScanEntry(std::span<const std::byte> entry, FieldLocation* locations, KeyOrder* order,
                 std::size_t ordinal) const;
  bool ReadUsualEntry(std::span<const std::byte> entry, std::span<const std::byte>* key,
                      FieldLocation* location) const;

  const FeatureDialect& dialect_;
  const Map map_;
  const std::uint32_t map_field_;
  std::size_t field_count_;
  FeatureIndex index_;
  std::vector<EntryTemplate> templates_;
};

}  // namespace ringfeed
