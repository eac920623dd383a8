#include "readers/parsers/tensors/instance_record.h"

#include <utility>

#include "readers/formats/builders/tensor_layouts.h"

namespace ringfeed {
namespace {

constexpr std::size_t kOffsetBytes = sizeof(std::int64_t);

// As Protobuf takes a number that is longer than its type.
bool ReadUInt32(WireReader* reader, std::uint32_t* value) {
  std::uint64_t read = 0;
  if (!reader->ReadVarint(&read)) return false;
  *value = static_cast<std::uint32_t>(read);
  return true;
}

bool ReadDescription(std::span<const std::byte> message, InstanceField* field) {
  using Layout = InstanceLayout;
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
  using Layout = InstanceLayout;
  // Writers leave out what is empty: it stands at the end.
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

}  // namespace

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

Status LocateInstance(std::span<const std::byte> record, const InstanceSlots& slots,
                      FieldLocation* locations) {
  InstanceReader reader(record);
  (void)reader.Read(slots, locations);
  return reader.status();
}

}  // namespace ringfeed
