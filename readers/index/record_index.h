#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "ringfeed/status.h"

namespace ringfeed {

/// The bytes that hold a record: it alone, or, in a format of chunks, others too.
struct RecordUnit {
  std::uint64_t offset = 0;  ///< in the file
  std::uint64_t bytes = 0;   ///< up to the next unit; what lies behind the record's own end, too
  std::uint64_t first_record = 0;  ///< number of the unit's first record
  std::uint32_t records = 1;       ///< that it holds
};

/// Records of one size at one distance from each other.
struct FixedUnits {
  std::uint64_t offset = 0;  ///< of record 0
  std::uint64_t record_bytes = 0;
  std::uint64_t stride_bytes = 0;  ///< from one record's start to the next one's
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
};

}  // namespace ringfeed
