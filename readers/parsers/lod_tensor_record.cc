#include "readers/parsers/lod_tensor_record.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/little_endian.h"
#include "readers/formats/lod_tensor_layout.h"
#include "readers/parsers/located_storage.h"
#include "readers/parsers/wire_reader.h"

namespace ringfeed {
namespace {

constexpr std::size_t kOffsetBytes = sizeof(std::uint64_t);
// Above what Paddle's own tensors can have, which is 9.
constexpr std::size_t kMostDims = 16;

// What a TensorDesc says.
struct Description {
  std::uint64_t type = 0;
  bool has_type = false;
  std::array<std::int64_t, kMostDims> dims{};
  std::size_t rank = 0;
};

bool AddDim(WireReader* reader, Description* description) {
  std::uint64_t dim = 0;
  if (description->rank == kMostDims || !reader->ReadVarint(&dim)) return false;
  description->dims[description->rank++] = static_cast<std::int64_t>(dim);
  return true;
}

// Dimensions may be packed: Paddle does not, but may by Protobuf's rules. There are no other
// fields.
bool ReadDescription(std::span<const std::byte> message, Description* description) {
  constexpr std::uint32_t kType = WireTag(LoDTensorLayout::kTypeField, WireType::kVarint);
  constexpr std::uint32_t kDim = WireTag(LoDTensorLayout::kDimsField, WireType::kVarint);
  constexpr std::uint32_t kPacked = WireTag(LoDTensorLayout::kDimsField, WireType::kDelimited);
  WireReader reader(message);
  while (!reader.done()) {
    std::uint32_t tag = 0;
    if (!reader.ReadTag(&tag)) return false;
    if (tag == kType) {
      if (!reader.ReadVarint(&description->type)) return false;
      description->has_type = true;
    } else if (tag == kDim) {
      if (!AddDim(&reader, description)) return false;
    } else if (tag == kPacked) {
      std::span<const std::byte> packed;
      if (!reader.ReadDelimited(&packed)) return false;
      WireReader dims(packed);
      while (!dims.done()) {
        if (!AddDim(&dims, description)) return false;
      }
    } else {
      return false;
    }
  }
  return description->has_type;
}

std::string Spelled(DType dtype, const Shape& shape) {
  return std::string(DTypeName(dtype)) + ShapeToString(shape);
}

// One record from its start to its end. After a false, status() says why.
class RecordReader {
 public:
  explicit RecordReader(std::span<const std::byte> record) : record_(record) {}

  bool ReadCount(std::size_t expected);
  bool ReadTensor(const LoDTensorField& field, FieldLocation* locations);
  bool ReadEnd();
  const Status& status() const { return status_; }

 private:
  std::size_t left() const { return record_.size() - at_; }
  bool Fail(std::size_t at, const std::string& why, StatusCode code = StatusCode::kDamaged);
  template <typename T>
  bool Read(const char* what, T* value);
  bool ReadVersion(const char* what);
  bool ReadLevels(FieldLocation* locations);
  bool ReadLevel(std::size_t level, FieldLocation* location);
  bool ReadShape(std::uint64_t* units);
  bool CheckType(std::size_t at, const Description& description);
  bool ReadValues(std::uint64_t units, FieldLocation* location);

  const std::span<const std::byte> record_;
  const LoDTensorField* field_ = nullptr;
  std::size_t at_ = 0;
  std::uint64_t level_end_ = 0;  // what the level before reaches to
  Status status_;
};

bool RecordReader::Fail(std::size_t at, const std::string& why, StatusCode code) {
  const std::string tensor = field_ == nullptr ? "" : "tensor \"" + field_->name + "\", ";
  status_ = Status(code, tensor + "byte " + std::to_string(at) + " of the record: " + why);
  return false;
}

template <typename T>
bool RecordReader::Read(const char* what, T* value) {
  if (sizeof(T) > left()) {
    return Fail(at_, "expected " + std::to_string(sizeof(T)) + " bytes, " + what + ", found " +
                         std::to_string(left()));
  }
  *value = LoadLe<T>(record_.data() + at_);
  at_ += sizeof(T);
  return true;
}

bool RecordReader::ReadCount(std::size_t expected) {
  std::uint32_t count = 0;
  if (!Read("the number of tensors", &count)) return false;
  return count == expected ||
         Fail(0, "expected the number of tensors, " + std::to_string(expected) + ", found " +
                     std::to_string(count));
}

bool RecordReader::ReadEnd() {
  field_ = nullptr;
  return left() == 0 || Fail(at_, "expected its end behind the last tensor, found " +
                                      std::to_string(left()) + " bytes more");
}

bool RecordReader::ReadVersion(const char* what) {
  std::uint32_t version = 0;
  if (!Read(what, &version)) return false;
  return version == LoDTensorLayout::kVersion ||
         Fail(at_ - sizeof(version),
              "expected " + std::string(what) + ", 0, found " + std::to_string(version));
}

bool RecordReader::ReadLevel(std::size_t level, FieldLocation* location) {
  const std::string_view which = level == 0 ? "the LoD's top level" : "the LoD's next level";
  const std::size_t start = at_;
  std::uint64_t bytes = 0;
  if (!Read("the length of a level of the LoD", &bytes)) return false;
  if (bytes > left() || bytes % kOffsetBytes != 0 || bytes == 0) {
    return Fail(start, "expected the length of " + std::string(which) +
                           ", one offset of 8 bytes or more within the " + std::to_string(left()) +
                           " bytes that are left, found " + std::to_string(bytes));
  }
  const std::byte* const offsets = record_.data() + at_;
  std::uint64_t last = 0;
  for (std::size_t at = 0; at < bytes; at += kOffsetBytes) {
    const auto offset = LoadLe<std::uint64_t>(offsets + at);
    if (offset < last || (at == 0 && offset != 0)) {
      return Fail(at_ + at, "expected offsets that ascend from 0, found " + std::to_string(offset) +
                                (at == 0 ? " first" : " behind " + std::to_string(last)));
    }
    last = offset;
  }
  const std::uint64_t sequences = bytes / kOffsetBytes - 1;
  if (level > 0 && level_end_ != sequences) {
    return Fail(start, "expected as many sequences as the level above ends at, " +
                           std::to_string(level_end_) + ", found " + std::to_string(sequences));
  }
  at_ += static_cast<std::size_t>(bytes);
  level_end_ = last;
  return LocateAt(offsets + kOffsetBytes, bytes - kOffsetBytes, sequences, location) ||
         Fail(start, "4 GiB of offsets and more are not supported", StatusCode::kUnsupported);
}

bool RecordReader::ReadLevels(FieldLocation* locations) {
  std::uint64_t levels = 0;
  if (!Read("the number of the LoD's levels", &levels)) return false;
  if (levels != field_->lod_levels) {
    return Fail(at_ - sizeof(levels), "expected the number of the LoD's levels, " +
                                          std::to_string(field_->lod_levels) + ", found " +
                                          std::to_string(levels));
  }
  for (std::size_t level = 0; level < field_->lod_levels; ++level) {
    if (!ReadLevel(level, locations + level)) return false;
  }
  return true;
}

bool RecordReader::CheckType(std::size_t at, const Description& description) {
  constexpr std::uint64_t kComplex64 = 23;
  constexpr std::uint64_t kComplex128 = 24;
  const Shape& shape = field_->shape;
  const std::string expected = "expected " + Spelled(field_->dtype, shape) + ", found ";
  if (description.type == kComplex64 || description.type == kComplex128) {
    const std::string type = description.type == kComplex64 ? "complex64" : "complex128";
    return Fail(at, expected + type + ", which no field can hold", StatusCode::kUnsupported);
  }
  const std::optional<DType> dtype = DTypeOfLoDTensor(description.type);
  if (!dtype) return Fail(at, expected + "type " + std::to_string(description.type));
  bool fits = dtype == field_->dtype && description.rank == shape.size();
  for (std::size_t d = 0; fits && d < shape.size(); ++d) {
    const std::int64_t dim = description.dims[d];
    fits = dim >= 0 && (shape[d] < 0 || dim == shape[d]);
  }
  const auto* dims = description.dims.data();
  return fits || Fail(at, expected + Spelled(*dtype, Shape(dims, dims + description.rank)));
}

bool RecordReader::ReadShape(std::uint64_t* units) {
  const std::size_t start = at_;
  std::int32_t size = 0;
  if (!Read("the length of the description", &size)) return false;
  if (size < 0 || static_cast<std::size_t>(size) > left()) {
    return Fail(start, "expected a description within the " + std::to_string(left()) +
                           " bytes that are left, found " + std::to_string(size));
  }
  Description description;
  if (!ReadDescription(record_.subspan(at_, static_cast<std::size_t>(size)), &description)) {
    return Fail(at_, "expected a TensorDesc of " + std::to_string(size) +
                         " bytes, a type and at most " + std::to_string(kMostDims) + " dimensions");
  }
  if (!CheckType(at_, description)) return false;
  const bool ragged = !field_->shape.empty() && field_->shape[0] < 0;
  *units = ragged ? static_cast<std::uint64_t>(description.dims[0]) : 1;
  if (field_->lod_levels > 0 && level_end_ != *units) {
    return Fail(at_, "expected as many rows as the LoD ends at, " + std::to_string(level_end_) +
                         ", found " + std::to_string(*units));
  }
  at_ += static_cast<std::size_t>(size);
  return true;
}

bool RecordReader::ReadValues(std::uint64_t units, FieldLocation* location) {
  const std::byte* const values = record_.data() + at_;
  if (units > left() / field_->unit_bytes) {
    return Fail(at_, "expected " + std::to_string(units) + " times " +
                         std::to_string(field_->unit_bytes) + " bytes of values, found " +
                         std::to_string(left()));
  }
  const std::size_t bytes = static_cast<std::size_t>(units) * field_->unit_bytes;
  if (field_->dtype == DType::kBool) {
    const auto* const odd =
        std::find_if(values, values + bytes, [](std::byte value) { return value > std::byte{1}; });
    if (odd != values + bytes) {
      return Fail(at_ + static_cast<std::size_t>(odd - values),
                  "expected a bool, 0 or 1, found " + std::to_string(std::to_integer<int>(*odd)));
    }
  }
  if (!LocateAt(values, bytes, static_cast<std::size_t>(units), location)) {
    return Fail(at_, "a field of 4 GiB and more is not supported", StatusCode::kUnsupported);
  }
  at_ += bytes;
  return true;
}

bool RecordReader::ReadTensor(const LoDTensorField& field, FieldLocation* locations) {
  field_ = &field;
  std::uint64_t units = 0;
  return ReadVersion("the LoDTensor's version") && ReadLevels(locations) &&
         ReadVersion("the Tensor's version") && ReadShape(&units) &&
         ReadValues(units, locations + field.lod_levels);
}

}  // namespace

Status LocateLoDTensors(std::span<const std::byte> record, std::span<const LoDTensorField> fields,
                        FieldLocation* locations) {
  RecordReader reader(record);
  if (!reader.ReadCount(fields.size())) return reader.status();
  for (const LoDTensorField& field : fields) {
    if (!reader.ReadTensor(field, locations)) return reader.status();
    locations += field.lod_levels + 1;
  }
  (void)reader.ReadEnd();
  return reader.status();
}

}  // namespace ringfeed
