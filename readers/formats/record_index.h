#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "ringfeed/status.h"

namespace ringfeed {

/// A record by its file and its number there.
struct FileRecord {
  std::uint32_t file = 0;
  std::uint64_t record = 0;
};

/// The bytes that hold a record: it alone, or, in a format of chunks, others too.
struct RecordUnit {
  std::uint64_t offset = 0;  ///< in the file
  /// Up to the next unit, or to the known end of its records; 0 if they are lost.
  std::uint64_t bytes = 0;
  std::uint64_t first_record = 0;  ///< number of the unit's first record
  std::uint32_t records = 1;       ///< that it holds
  bool lost = false;               ///< when the index was made: RecordIndex::DamageOf has the range
};

/// Records of one size at one distance from each other.
struct FixedUnits {
  std::uint64_t offset = 0;  ///< of record 0
  std::uint64_t record_bytes = 0;
  std::uint64_t stride_bytes = 0;  ///< from one record's start to the next one's
};

/// A range that could not be read when the index was made.
struct IndexDamage {
  static constexpr std::uint64_t kNoRecord = ~std::uint64_t{0};
  /// No damage, but a warning: nothing is lost.
  static constexpr std::uint64_t kWarning = kNoRecord - 1;

  std::uint64_t begin = 0;  ///< in the file
  std::uint64_t end = 0;
  std::uint64_t record = kNoRecord;  ///< the first one of the first unit that is lost with it
  std::string reason;

  /// By record, those without one last; then by place.
  friend bool operator<(const IndexDamage& a, const IndexDamage& b) {
    return a.record != b.record ? a.record < b.record : a.begin < b.begin;
  }
};

/// Damage that is in no numbered record.
struct IndexLoss {
  std::uint64_t ranges = 0;
  std::uint64_t first_offset = 0;  ///< of the first of them
};

/// The places of the records of one file, by their numbers from 0. Damaged records that the index
/// could count have numbers too. Immutable; thread safe; calls block only for pages of the index
/// that are not in memory.
class RecordIndex {
 public:
  virtual ~RecordIndex() = default;
  /// How many records there are.
  virtual std::uint64_t records() const = 0;
  /// The units of `records`, each less than records(), in their order; as many as `units` has.
  virtual Status Find(std::span<const std::uint64_t> records,
                      std::span<RecordUnit> units) const = 0;
  /// The number of the first record of the first unit that starts at or after `offset`; records()
  /// if there is none.
  virtual Status FirstFrom(std::uint64_t offset, std::uint64_t* record) const = 0;
  /// The records' layout if all are of one size: then nothing needs to be looked up.
  virtual std::optional<FixedUnits> fixed() const { return std::nullopt; }
  /// Whether each unit is the bytes of one record, and nothing else.
  virtual bool units_are_payload() const { return false; }
  /// The damage found when the index was made, sorted, with warnings. If a file is damaged all
  /// over, not all of it.
  virtual std::span<const IndexDamage> damage() const { return {}; }
  /// The damage that is in no record, all counted.
  virtual IndexLoss loss() const {
    const std::span<const IndexDamage> lost = DamageOf(IndexDamage::kNoRecord);
    return {lost.size(), lost.empty() ? 0 : lost.front().begin};
  }
  /// The damage to report with the first record of a unit, or, for kNoRecord, with none.
  std::span<const IndexDamage> DamageOf(std::uint64_t first_record) const {
    const std::span<const IndexDamage> all = damage();
    const auto of_record = [](const IndexDamage& one, std::uint64_t record) {
      return one.record < record;
    };
    const auto first = std::lower_bound(all.begin(), all.end(), first_record, of_record);
    const auto last = std::find_if(
        first, all.end(), [&](const IndexDamage& one) { return one.record != first_record; });
    return {first, last};
  }
  /// The warnings of the framer that read the file.
  std::span<const IndexDamage> warnings() const { return DamageOf(IndexDamage::kWarning); }
  /// What happened to it since it was opened, for reports; mostly nothing.
  virtual std::string remark() const { return {}; }
};

}  // namespace ringfeed
