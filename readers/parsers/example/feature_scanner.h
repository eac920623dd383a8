#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "readers/parsers/example/entry_template.h"
#include "readers/parsers/example/feature_field.h"
#include "readers/parsers/example/feature_index.h"
#include "readers/parsers/example/feature_values.h"
#include "readers/parsers/example/record_layout.h"
#include "readers/parsers/parser.h"
#include "readers/parsers/usual_reader.h"

namespace ringfeed {

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

  /// Fills locations[field] of every field. False where the record is none of the dialect; features
  /// that are not asked for are not looked into, and values not yet checked.
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
