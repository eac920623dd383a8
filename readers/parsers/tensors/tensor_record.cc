#include "readers/parsers/tensors/tensor_record.h"

#include <algorithm>

#include "base/little_endian.h"
#include "base/refuse.h"
#include "readers/parsers/field_row.h"
#include "readers/parsers/located_rows.h"

namespace ringfeed {
namespace {

constexpr std::size_t kOffsetBytes = sizeof(std::uint64_t);
// A row stays far below the largest count of bytes.
constexpr std::int64_t kMostElements = std::int64_t{1} << 28;

// Why a batch can have no such tensor; empty if it can.
std::string SetTensorField(const SlotSpec& slot, TensorField* field) {
  *field = {slot.name, slot.dtype, slot.dims, slot.lod_levels, 0};
  if (field->ragged()) field->shape[0] = -1;
  FieldRow row;
  if (const char* why = SetFieldRow({slot.name, slot.dtype, field->shape}, kMostElements, &row)) {
    return why;
  }
  if (slot.lod_levels > kMostLodLevels) {
    return "it has at most " + std::to_string(kMostLodLevels) + " levels of LoD";
  }
  if (slot.lod_levels > 0 && !field->ragged()) {
    return "with LoD its first dimension is -1, the rows of all sequences";
  }
  field->unit_bytes = row.unit_bytes;
  return "";
}

std::string Spelled(DType dtype, const Shape& shape) {
  return std::string(DTypeName(dtype)) + ShapeToString(shape);
}

}  // namespace

std::vector<TensorField> MakeTensorFields(std::span<const SlotSpec> slots,
                                          const std::string& parser, const std::string& noun) {
  const auto refuse = [&](const std::string& why) { Refuse(parser + ": " + why); };
  if (slots.empty()) refuse("name at least one " + noun);
  std::vector<TensorField> fields;
  for (const SlotSpec& slot : slots) {
    const auto same = [&](const TensorField& other) { return other.name == slot.name; };
    if (std::any_of(fields.begin(), fields.end(), same)) {
      refuse("\"" + slot.name + "\" is named twice");
    }
    const std::string why = SetTensorField(slot, &fields.emplace_back());
    if (!why.empty()) refuse(noun + " \"" + slot.name + "\": " + why);
  }
  return fields;
}

bool TensorDims::Read(WireReader* reader) {
  std::uint64_t dim = 0;
  if (!reader->ReadVarint(&dim)) return false;
  if (rank < kMost) values[rank] = static_cast<std::int64_t>(dim);
  ++rank;
  return true;
}

bool TensorDims::ReadPacked(WireReader* reader) {
  std::span<const std::byte> packed;
  if (!reader->ReadDelimited(&packed)) return false;
  WireReader dims(packed);
  while (!dims.done()) {
    if (!Read(&dims)) return false;
  }
  return true;
}

void TensorRecordReader::StartTensor(const TensorField* field) {
  field_ = field;
  levels_ = 0;
  level_end_ = 0;
}

bool TensorRecordReader::Fail(std::size_t at, const std::string& why, StatusCode code) {
  const std::string tensor =
      field_ == nullptr ? "" : std::string(noun_) + " \"" + field_->name + "\", ";
  status_ = Status(code, tensor + "byte " + std::to_string(at) + " of the record: " + why);
  return false;
}

bool TensorRecordReader::CheckLevels(std::size_t at, std::uint64_t levels) {
  return levels == field_->lod_levels ||
         Fail(at, "expected the number of the LoD's levels, " + std::to_string(field_->lod_levels) +
                      ", found " + std::to_string(levels));
}

bool TensorRecordReader::LocateLevel(std::size_t at, std::span<const std::byte> offsets,
                                     FieldLocation* location) {
  std::uint64_t last = 0;
  for (std::size_t i = 0; i < offsets.size(); i += kOffsetBytes) {
    const auto offset = LoadOnceLe<std::uint64_t>(offsets.data() + i);
    if (offset < last || (i == 0 && offset != 0)) {
      return Fail(PlaceOf(offsets.data()) + i,
                  "expected offsets that ascend from 0, found " + std::to_string(offset) +
                      (i == 0 ? " first" : " behind " + std::to_string(last)));
    }
    last = offset;
  }
  const std::uint64_t sequences = offsets.size() / kOffsetBytes - 1;
  if (levels_ > 0 && level_end_ != sequences) {
    return Fail(at, "expected as many sequences as the level above ends at, " +
                        std::to_string(level_end_) + ", found " + std::to_string(sequences));
  }
  ++levels_;
  level_end_ = last;
  return LocateAt(offsets.data() + kOffsetBytes, offsets.size() - kOffsetBytes, sequences,
                  location) ||
         Fail(at, "4 GiB of offsets and more are not supported", StatusCode::kUnsupported);
}

bool TensorRecordReader::CheckDims(std::size_t at, std::optional<DType> dtype, std::uint64_t type,
                                   const TensorDims& dims, std::uint64_t* units) {
  const Shape& shape = field_->shape;
  const std::string expected = "expected " + Spelled(field_->dtype, shape) + ", found ";
  if (!dtype) return Fail(at, expected + "type " + std::to_string(type));
  if (dims.rank > TensorDims::kMost) {
    return Fail(at, expected + std::to_string(dims.rank) + " dimensions");
  }
  bool fits = dtype == field_->dtype && dims.rank == shape.size();
  for (std::size_t d = 0; fits && d < shape.size(); ++d) {
    const std::int64_t dim = dims.values[d];
    fits = dim >= 0 && (shape[d] < 0 || dim == shape[d]);
  }
  if (!fits) {
    const auto* first = dims.values.data();
    return Fail(at, expected + Spelled(*dtype, Shape(first, first + dims.rank)));
  }
  *units = field_->ragged() ? static_cast<std::uint64_t>(dims.values[0]) : 1;
  return field_->lod_levels == 0 || level_end_ == *units ||
         Fail(at, "expected as many rows as the LoD ends at, " + std::to_string(level_end_) +
                      ", found " + std::to_string(*units));
}

bool TensorRecordReader::LocateValues(std::span<const std::byte> values, std::uint64_t units,
                                      FieldLocation* location) {
  if (field_->dtype == DType::kBool) {
    const auto odd = std::find_if(values.begin(), values.end(),
                                  [](std::byte value) { return value > std::byte{1}; });
    if (odd != values.end()) {
      return Fail(PlaceOf(values.data()) + static_cast<std::size_t>(odd - values.begin()),
                  "expected a bool, 0 or 1, found " + std::to_string(std::to_integer<int>(*odd)));
    }
  }
  return LocateAt(values.data(), values.size(), static_cast<std::size_t>(units), location) ||
         Fail(PlaceOf(values.data()), "a field of 4 GiB and more is not supported",
              StatusCode::kUnsupported);
}

}  // namespace ringfeed
