#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "readers/parsers/feature_index.h"
#include "readers/parsers/ofrecord_fields.h"
#include "readers/parsers/parser.h"

namespace ringfeed {

/// Finds the features of an OFRecord. Its keys are looked for where the record before had them,
/// since one writer mostly writes one order. Immutable, thread safe.
class OFRecordScanner {
 public:
  /// The numbers of the features in the record before, in its order.
  using KeyOrder = std::vector<std::uint32_t>;

  explicit OFRecordScanner(const std::vector<OFRecordField>& fields);

  /// Fills locations[field] of every field. False where the record is no OFRecord; features that
  /// are not asked for are not looked into, and values not yet checked.
  bool Scan(const RecordSpan& record, FieldLocation* locations, KeyOrder* order) const;

 private:
  bool ScanEntry(std::span<const std::byte> entry, FieldLocation* locations, KeyOrder* order,
                 std::size_t ordinal) const;

  std::size_t field_count_;
  FeatureIndex index_;
};

}  // namespace ringfeed
