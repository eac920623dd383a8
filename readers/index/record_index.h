#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "ringfeed/status.h"

namespace ringfeed {

/// The bytes that hold a record: it alone, or, in a format of chunks, others too.
struct RecordUnit {
  std::uint64_t offset = 0;  ///< in the file
  /// Up to the next unit, or to where its records are known to end; 0 where they are lost (or empty
  /// in a format that has empty ones): then nothing is read, and the unit's framer says which.
  std::uint64_t bytes = 0;
  std::uint64_t first_record = 0;  ///< number of the unit's first record
  std::uint32_t records = 1;       ///< that it holds
};

/// Records of one size at one distance from each other.
struct FixedUnits {
  std::uint64_t offset = 0;  ///< of record 0
  std::uint64_t record_bytes = 0;
  std::uint64_t stride_bytes = 0;  ///< from one record's start to the next one's
};

/// Damage that no record has the number of.
struct IndexLoss {
  std::uint64_t ranges = 0;
  std::uint64_t first_offset = 0;  ///< of the first of them
};

/// Where the records of one file stand, by their numbers from 0. Damaged records that the index
/// could count have numbers too. Immutable; thread safe; calls do not block but for pages of the
/// index that are not in memory.
class RecordIndex {
 public:
  virtual ~RecordIndex() = default;
  /// How many records there are.
  virtual std::uint64_t records() const = 0;
  /// The units of `records`, each less than records(), in their order; as many as `units` has.
  virtual Status Find(std::span<const std::uint64_t> records,
                      std::span<RecordUnit> units) const = 0;
  /// The number of the first record of the first unit that starts at `offset` or behind it;
  /// records() where there is none.
  virtual Status FirstFrom(std::uint64_t offset, std::uint64_t* record) const = 0;
  /// Where all records are of one size: then nothing needs to be looked up.
  virtual std::optional<FixedUnits> fixed() const { return std::nullopt; }
  /// What was met when the index was made and is in none of its records.
  virtual IndexLoss loss() const { return {}; }
  /// What happened to it since it was opened, for reports; mostly nothing.
  virtual std::string remark() const { return {}; }
};

}  // namespace ringfeed
