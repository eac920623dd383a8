#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "readers/formats/builders/wire_format.h"
#include "readers/parsers/example/feature_index.h"
#include "readers/parsers/parser.h"
#include "readers/parsers/tensors/tensor_record.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// A Field of an Instance as Protobuf merges its parts: views into the record.
struct InstanceField {
  std::span<const std::byte> name;
  std::span<const std::byte> description;  ///< the last part of it
  bool has_dtype = false;
  std::uint32_t dtype = 0;
  TensorDims dims;
  std::uint32_t lod_level = 0;
  std::array<std::span<const std::byte>, kMostLodLevels> lod;  ///< the first of the levels
  std::size_t levels = 0;                                      ///< also above kMostLodLevels
  std::span<const std::byte> value;
};

/// Goes through an Instance (proto/ringfeed/instance.proto), whose unknown fields may stand
/// anywhere. Nothing is allocated.
class InstanceScan {
 public:
  enum class Step {
    kField,
    kUnknown,
    kEnd,
    kDamaged,  ///< it is no Protobuf message from here on, or a Field is none
  };

  explicit InstanceScan(std::span<const std::byte> record)
      : reader_(record), end_(record.data() + record.size()) {}

  /// `field` is set where it finds one.
  Step Next(InstanceField* field);
  /// What Next found, as it stands in the record; of what is damaged all from its start.
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  Step Read(InstanceField* field);

  WireReader reader_;
  const std::byte* const end_;
  std::span<const std::byte> bytes_;
};

/// The tensors that records must have, to be found by their names.
class InstanceSlots {
 public:
  explicit InstanceSlots(std::vector<TensorField> fields);

  const std::vector<TensorField>& fields() const { return fields_; }
  /// FeatureIndex::kNone where no slot has that name.
  std::uint32_t Find(std::span<const std::byte> name) const { return index_.Find(name); }
  /// The location of a slot's values; its levels' are before it.
  std::size_t ValuesOf(std::uint32_t slot) const { return values_[slot]; }

 private:
  const std::vector<TensorField> fields_;
  const FeatureIndex index_;
  std::vector<std::size_t> values_;
};

/// Finds each slot in a record, as LoDColumnsParser wants its locations. Everything that the record
/// says is checked against the bytes that it has before it is used; nothing is allocated but the
/// text of a failure, which names the slot, the byte of the record and what was expected: kDamaged,
/// or kUnsupported for 4 GiB and more. Thread safe.
Status LocateInstance(std::span<const std::byte> record, const InstanceSlots& slots,
                      FieldLocation* locations);

}  // namespace ringfeed
