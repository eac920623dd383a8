#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/refuse.h"
#include "readers/formats/builders/tensor_layouts.h"
#include "readers/formats/builders/wire_format.h"
#include "readers/parsers/example/feature_index.h"
#include "readers/parsers/lod_columns.h"
#include "readers/parsers/parser.h"
#include "readers/parsers/tensors/tensor_record.h"
#include "ringfeed/formats.h"
#include "ringfeed/parsers.h"
#include "ringfeed/status.h"

namespace ringfeed {
namespace {

using Layout = InstanceLayout;

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

/// Goes through an Instance (proto/ringfeed/instance.proto), whose unknown fields may be at any
/// place. Allocates nothing.
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

  /// Sets `field` if it finds one.
  Step Next(InstanceField* field);
  /// The bytes that Next found in the record; if they are damaged, all from their start.
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  Step Read(InstanceField* field);

  WireReader reader_;
  const std::byte* const end_;
  std::span<const std::byte> bytes_;
};

/// The tensors that records must have, found by their names.
class InstanceSlots {
 public:
  explicit InstanceSlots(std::vector<TensorField> fields);

  const std::vector<TensorField>& fields() const { return fields_; }
  /// FeatureIndex::kNone if no slot has that name.
  std::uint32_t Find(std::span<const std::byte> name) const { return index_.Find(name); }
  /// The location of a slot's values; its levels' are before it.
  std::size_t ValuesOf(std::uint32_t slot) const { return values_[slot]; }

 private:
  const std::vector<TensorField> fields_;
  const FeatureIndex index_;
  std::vector<std::size_t> values_;
};

constexpr std::size_t kOffsetBytes = sizeof(std::int64_t);

// As Protobuf reads a number that is longer than its type.
bool ReadUInt32(WireReader* reader, std::uint32_t* value) {
  std::uint64_t read = 0;
  if (!reader->ReadVarint(&read)) return false;
  *value = static_cast<std::uint32_t>(read);
  return true;
}

bool ReadDescription(std::span<const std::byte> message, InstanceField* field) {
  WireReader reader(message);
  while (!reader.done()) {
    std::uint32_t tag = 0;
    bool read = reader.ReadTag(&tag);
    if (!read) return false;
    if (tag == WireTag(Layout::kName, WireType::kDelimited)) {
      read = reader.ReadDelimited(&field->name);
    } else if (tag == WireTag(Layout::kDtype, WireType::kVarint)) {
      read = ReadUInt32(&reader, &field->dtype);
      field->has_dtype = true;
    } else if (tag == WireTag(Layout::kDims, WireType::kVarint)) {
      read = field->dims.Read(&reader);
    } else if (tag == WireTag(Layout::kDims, WireType::kDelimited)) {
      read = field->dims.ReadPacked(&reader);
    } else if (tag == WireTag(Layout::kLodLevel, WireType::kVarint)) {
      read = ReadUInt32(&reader, &field->lod_level);
    } else {
      read = reader.Skip(tag);
    }
    if (!read) return false;
  }
  return true;
}

bool ReadLevel(WireReader* reader, InstanceField* field) {
  std::span<const std::byte> level;
  if (!reader->ReadDelimited(&level)) return false;
  if (field->levels < field->lod.size()) field->lod[field->levels] = level;
  ++field->levels;
  return true;
}

bool ReadField(std::span<const std::byte> message, InstanceField* field) {
  // Writers leave out empty fields: an empty one is at the end.
  field->name = field->description = field->value = message.last(0);
  field->has_dtype = false;
  field->dims.rank = field->levels = 0;
  field->lod_level = 0;
  WireReader reader(message);
  while (!reader.done()) {
    std::uint32_t tag = 0;
    bool read = reader.ReadTag(&tag);
    if (!read) return false;
    if (tag == WireTag(Layout::kDescription, WireType::kDelimited)) {
      read =
          reader.ReadDelimited(&field->description) && ReadDescription(field->description, field);
    } else if (tag == WireTag(Layout::kValue, WireType::kDelimited)) {
      read = reader.ReadDelimited(&field->value);
    } else if (tag == WireTag(Layout::kLod, WireType::kDelimited)) {
      read = ReadLevel(&reader, field);
    } else {
      read = reader.Skip(tag);
    }
    if (!read) return false;
  }
  return true;
}

// One record from its start to its end.
class InstanceReader final : public TensorRecordReader {
 public:
  explicit InstanceReader(std::span<const std::byte> record) : TensorRecordReader("slot", record) {}

  bool Read(const InstanceSlots& slots, FieldLocation* locations);

 private:
  bool Locate(const InstanceField& found, FieldLocation* values);
  bool LocateLevels(const InstanceField& found, FieldLocation* levels);
  bool RefuseMissing(const InstanceSlots& slots, const FieldLocation* locations);
};

bool InstanceReader::LocateLevels(const InstanceField& found, FieldLocation* levels) {
  const std::size_t at = PlaceOf(found.description.data());
  if (!CheckLevels(at, found.lod_level)) return false;
  if (found.levels != found.lod_level) {
    return Fail(at, "expected as many levels of the LoD as the description has, " +
                        std::to_string(found.lod_level) + ", found " +
                        std::to_string(found.levels));
  }
  for (std::size_t level = 0; level < found.levels; ++level) {
    const std::span<const std::byte> offsets = found.lod[level];
    const std::size_t start = PlaceOf(offsets.data());
    if (offsets.empty() || offsets.size() % kOffsetBytes != 0) {
      return Fail(start, "expected a level of the LoD, one offset of 8 bytes or more, found " +
                             std::to_string(offsets.size()) + " bytes");
    }
    if (!LocateLevel(start, offsets, levels + level)) return false;
  }
  return true;
}

bool InstanceReader::Locate(const InstanceField& found, FieldLocation* values) {
  const std::size_t at = PlaceOf(found.description.data());
  if (values->data != nullptr) {
    return Fail(at, "expected one field of this name, found a second one");
  }
  if (!found.has_dtype) return Fail(at, "expected a description with a dtype, found none");
  std::uint64_t units = 0;
  if (!LocateLevels(found, values - field().lod_levels) ||
      !CheckDims(at, DTypeOfInstance(found.dtype), found.dtype, found.dims, &units)) {
    return false;
  }
  const std::size_t bytes = found.value.size();
  if (units != bytes / field().unit_bytes || bytes % field().unit_bytes != 0) {
    return Fail(PlaceOf(found.value.data()), "expected " + std::to_string(units) + " times " +
                                                 std::to_string(field().unit_bytes) +
                                                 " bytes of values, found " +
                                                 std::to_string(bytes));
  }
  return LocateValues(found.value, units, values);
}

bool InstanceReader::RefuseMissing(const InstanceSlots& slots, const FieldLocation* locations) {
  for (std::uint32_t slot = 0; slot < slots.fields().size(); ++slot) {
    if (locations[slots.ValuesOf(slot)].data != nullptr) continue;
    StartTensor(&slots.fields()[slot]);
    return Fail(record().size(), "expected a field of this name before the end, found none");
  }
  return true;
}

bool InstanceReader::Read(const InstanceSlots& slots, FieldLocation* locations) {
  for (std::uint32_t slot = 0; slot < slots.fields().size(); ++slot) {
    locations[slots.ValuesOf(slot)].data = nullptr;  // not found yet
  }
  using Step = InstanceScan::Step;
  InstanceScan scan(record());
  InstanceField found;
  for (Step step = scan.Next(&found); step != Step::kEnd; step = scan.Next(&found)) {
    if (step == Step::kUnknown) continue;
    StartTensor(nullptr);
    if (step == Step::kDamaged) {
      return Fail(PlaceOf(scan.bytes().data()),
                  "expected a field of an Instance, found bytes that are none");
    }
    const std::uint32_t slot = slots.Find(found.name);
    if (slot == FeatureIndex::kNone) continue;
    StartTensor(&slots.fields()[slot]);
    if (!Locate(found, locations + slots.ValuesOf(slot))) return false;
  }
  return RefuseMissing(slots, locations);
}

std::vector<std::string> NamesOf(const std::vector<TensorField>& fields) {
  std::vector<std::string> names;
  for (const TensorField& field : fields) names.push_back(field.name);
  return names;
}

InstanceScan::Step InstanceScan::Read(InstanceField* field) {
  std::uint32_t tag = 0;
  if (!reader_.ReadTag(&tag)) return Step::kDamaged;
  if (tag != WireTag(InstanceLayout::kField, WireType::kDelimited)) {
    return reader_.Skip(tag) ? Step::kUnknown : Step::kDamaged;
  }
  std::span<const std::byte> message;
  const bool read = reader_.ReadDelimited(&message) && ReadField(message, field);
  return read ? Step::kField : Step::kDamaged;
}

InstanceScan::Step InstanceScan::Next(InstanceField* field) {
  const std::byte* const start = reader_.at();
  if (reader_.done()) return Step::kEnd;
  const Step step = Read(field);
  bytes_ = {start, step == Step::kDamaged ? end_ : reader_.at()};
  return step;
}

InstanceSlots::InstanceSlots(std::vector<TensorField> fields)
    : fields_(std::move(fields)), index_(NamesOf(fields_)) {
  std::size_t location = 0;
  for (const TensorField& field : fields_) {
    values_.push_back(location + field.lod_levels);
    location += field.lod_levels + 1;
  }
}

/// Finds each slot in a record, as LoDColumnsParser wants its locations. Everything that the record
/// says is checked against its bytes before it is used. It allocates only the text of a failure,
/// which names the slot, the byte of the record and what was expected: kDamaged, or kUnsupported
/// for 4 GiB and more. Thread safe.
Status LocateInstance(std::span<const std::byte> record, const InstanceSlots& slots,
                      FieldLocation* locations) {
  InstanceReader reader(record);
  (void)reader.Read(slots, locations);
  return reader.status();
}

InstanceSlots SlotsOf(const std::vector<SlotSpec>& slots) {
  // Protobuf writes no empty names: such a slot would be any field without a description.
  if (std::any_of(slots.begin(), slots.end(),
                  [](const SlotSpec& slot) { return slot.name.empty(); })) {
    Refuse("instance parser: a slot needs its name");
  }
  return InstanceSlots(MakeTensorFields(slots, "instance parser", "slot"));
}

class InstanceRecordParser final : public LoDColumnsParser {
 public:
  explicit InstanceRecordParser(const std::vector<SlotSpec>& slots) : slots_(SlotsOf(slots)) {
    for (const TensorField& field : slots_.fields()) {
      AddTensorColumns({field.name, field.dtype, field.shape}, field.lod_levels);
    }
  }

  std::string name() const override { return "instance"; }
  void Locate(std::span<const RecordSpan> rows, FieldLocation* locations, Scratch*,
              std::vector<RowFailure>* failures) const override {
    for (std::size_t row = 0; row < rows.size(); ++row) {
      Status status = LocateInstance(rows[row].bytes(), slots_, locations + row * fields_.size());
      if (!status.ok()) failures->push_back({row, std::move(status)});
    }
  }

 private:
  const InstanceSlots slots_;
};

using Step = InstanceScan::Step;

[[noreturn]] void RefuseTensor(const std::string& why) { Refuse("InstanceBuilder: " + why); }

void AppendBytes(std::uint32_t field, std::span<const std::byte> bytes,
                 std::vector<std::byte>* out) {
  AppendDelimitedHead(field, bytes.size(), out);
  out->insert(out->end(), bytes.begin(), bytes.end());
}

std::vector<std::byte> DescriptionOf(std::string_view name, DType dtype, const Shape& shape,
                                     std::size_t lod_levels) {
  std::vector<std::byte> dims;
  for (const std::int64_t dim : shape) AppendVarint(static_cast<std::uint64_t>(dim), &dims);
  std::vector<std::byte> description;
  AppendBytes(Layout::kName, std::as_bytes(std::span(name)), &description);
  AppendVarintField(Layout::kDtype, InstanceTypeOf(dtype), &description);
  if (!dims.empty()) AppendBytes(Layout::kDims, dims, &description);
  if (lod_levels > 0) AppendVarintField(Layout::kLodLevel, lod_levels, &description);
  return description;
}

}  // namespace

std::shared_ptr<const Parser> InstanceProtoParser(const std::vector<SlotSpec>& slots) {
  return std::make_shared<const InstanceRecordParser>(slots);
}

void InstanceBuilder::Drop(std::string_view name) {
  const auto wanted = std::as_bytes(std::span(name));
  InstanceScan scan(record_);
  InstanceField field;
  std::byte* kept = record_.data();
  for (Step step = scan.Next(&field); step != Step::kEnd; step = scan.Next(&field)) {
    if (step == Step::kField && std::ranges::equal(field.name, wanted)) continue;
    const std::span<const std::byte> bytes = scan.bytes();
    if (kept != bytes.data()) std::copy(bytes.begin(), bytes.end(), kept);
    kept += bytes.size();
  }
  record_.resize(static_cast<std::size_t>(kept - record_.data()));
}

void InstanceBuilder::Append(std::string_view name, DType dtype, const Shape& shape,
                             std::span<const std::byte> values, Levels lod) {
  if (name.empty()) RefuseTensor("a tensor needs its name");
  const std::string wrong = WrongTensorValues(dtype, shape, values.size(), lod);
  if (!wrong.empty()) RefuseTensor("\"" + std::string(name) + "\": " + wrong);
  if (finished_) record_.clear();
  finished_ = false;
  Drop(name);
  const std::vector<std::byte> description = DescriptionOf(name, dtype, shape, lod.size());
  std::size_t bytes = DelimitedFieldBytes(description.size());
  if (!values.empty()) bytes += DelimitedFieldBytes(values.size());
  for (const auto level : lod) bytes += DelimitedFieldBytes(level.size_bytes());
  AppendDelimitedHead(Layout::kField, bytes, &record_);
  AppendBytes(Layout::kDescription, description, &record_);
  if (!values.empty()) AppendBytes(Layout::kValue, values, &record_);
  for (const auto level : lod) AppendBytes(Layout::kLod, std::as_bytes(level), &record_);
}

InstanceBuilder& InstanceBuilder::Add(std::string_view name, DType dtype, const Shape& shape,
                                      std::span<const std::byte> values,
                                      const std::vector<std::vector<std::int64_t>>& lod) {
  const std::vector<std::span<const std::int64_t>> levels(lod.begin(), lod.end());
  Append(name, dtype, shape, values, levels);
  return *this;
}

InstanceBuilder& InstanceBuilder::Add(std::string_view name, const Tensor& tensor) {
  Append(name, tensor.dtype, tensor.shape, {tensor.data, tensor.bytes}, tensor.lod);
  return *this;
}

Status InstanceBuilder::StartFrom(std::span<const std::byte> record) {
  InstanceScan scan(record);
  InstanceField field;
  for (Step step = scan.Next(&field); step != Step::kEnd; step = scan.Next(&field)) {
    if (step != Step::kDamaged) continue;
    const auto at = scan.bytes().data() - record.data();
    return Status(StatusCode::kDamaged,
                  "byte " + std::to_string(at) +
                      " of the record: expected a field of an Instance, found bytes that are none");
  }
  // The record may be a result of Finish.
  record_ = std::vector<std::byte>(record.begin(), record.end());
  finished_ = false;
  return {};
}

std::span<const std::byte> InstanceBuilder::Finish() {
  if (finished_) record_.clear();
  finished_ = true;
  return record_;
}

}  // namespace ringfeed
