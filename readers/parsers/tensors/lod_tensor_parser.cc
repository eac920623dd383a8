#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/little_endian.h"
#include "base/refuse.h"
#include "readers/formats/builders/tensor_layouts.h"
#include "readers/formats/builders/wire_format.h"
#include "readers/parsers/lod_columns.h"
#include "readers/parsers/parser.h"
#include "readers/parsers/tensors/tensor_record.h"
#include "ringfeed/parsers.h"
#include "ringfeed/status.h"

namespace ringfeed {
namespace {

constexpr std::size_t kOffsetBytes = sizeof(std::uint64_t);

// The content of a TensorDesc.
struct Description {
  std::uint64_t type = 0;
  bool has_type = false;
  TensorDims dims;
};

// Dimensions may be packed: Paddle does not pack them, but Protobuf allows it. There are no other
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
      if (!description->dims.Read(&reader)) return false;
    } else if (tag == kPacked) {
      if (!description->dims.ReadPacked(&reader)) return false;
    } else {
      return false;
    }
  }
  return description->has_type && description->dims.rank <= TensorDims::kMost;
}

// One record from its start to its end.
class RecordReader final : public TensorRecordReader {
 public:
  explicit RecordReader(std::span<const std::byte> record) : TensorRecordReader("tensor", record) {}

  bool ReadCount(std::size_t expected);
  bool ReadTensor(const TensorField& tensor, FieldLocation* locations);
  bool ReadEnd();

 private:
  std::size_t left() const { return record().size() - at_; }
  std::span<const std::byte> Take(std::size_t bytes) {
    at_ += bytes;
    return record().subspan(at_ - bytes, bytes);
  }
  template <typename T>
  bool Read(const char* what, T* value);
  bool ReadVersion(const char* what);
  bool ReadLevels(FieldLocation* locations);
  bool ReadLevel(std::size_t level, FieldLocation* location);
  bool ReadShape(std::uint64_t* units);
  bool CheckType(const Description& description, std::uint64_t* units);
  bool ReadValues(std::uint64_t units, FieldLocation* location);

  std::size_t at_ = 0;
};

template <typename T>
bool RecordReader::Read(const char* what, T* value) {
  if (sizeof(T) > left()) {
    return Fail(at_, "expected " + std::to_string(sizeof(T)) + " bytes, " + what + ", found " +
                         std::to_string(left()));
  }
  *value = LoadOnceLe<T>(record().data() + at_);
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
  StartTensor(nullptr);
  return left() == 0 || Fail(at_, "expected its end after the last tensor, found " +
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
  return LocateLevel(start, Take(static_cast<std::size_t>(bytes)), location);
}

bool RecordReader::ReadLevels(FieldLocation* locations) {
  std::uint64_t levels = 0;
  if (!Read("the number of the LoD's levels", &levels)) return false;
  if (!CheckLevels(at_ - sizeof(levels), levels)) return false;
  for (std::size_t level = 0; level < field().lod_levels; ++level) {
    if (!ReadLevel(level, locations + level)) return false;
  }
  return true;
}

bool RecordReader::CheckType(const Description& description, std::uint64_t* units) {
  constexpr std::uint64_t kComplex64 = 23;
  constexpr std::uint64_t kComplex128 = 24;
  if (description.type == kComplex64 || description.type == kComplex128) {
    const std::string type = description.type == kComplex64 ? "complex64" : "complex128";
    return Fail(at_,
                "expected " + std::string(DTypeName(field().dtype)) + ShapeToString(field().shape) +
                    ", found " + type + ", which no field can hold",
                StatusCode::kUnsupported);
  }
  return CheckDims(at_, DTypeOfLoDTensor(description.type), description.type, description.dims,
                   units);
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
  if (!ReadDescription(record().subspan(at_, static_cast<std::size_t>(size)), &description)) {
    return Fail(at_, "expected a TensorDesc of " + std::to_string(size) +
                         " bytes, a type and at most " + std::to_string(TensorDims::kMost) +
                         " dimensions");
  }
  if (!CheckType(description, units)) return false;
  at_ += static_cast<std::size_t>(size);
  return true;
}

bool RecordReader::ReadValues(std::uint64_t units, FieldLocation* location) {
  if (units > left() / field().unit_bytes) {
    return Fail(at_, "expected " + std::to_string(units) + " times " +
                         std::to_string(field().unit_bytes) + " bytes of values, found " +
                         std::to_string(left()));
  }
  return LocateValues(Take(static_cast<std::size_t>(units) * field().unit_bytes), units, location);
}

bool RecordReader::ReadTensor(const TensorField& tensor, FieldLocation* locations) {
  StartTensor(&tensor);
  std::uint64_t units = 0;
  return ReadVersion("the LoDTensor's version") && ReadLevels(locations) &&
         ReadVersion("the Tensor's version") && ReadShape(&units) &&
         ReadValues(units, locations + tensor.lod_levels);
}

/// Finds the tensors of a record: for each field its LoD levels, the top one first, and after them
/// its values, as one location each. A level's location is its offsets without the first, which is
/// 0: u64, of any alignment. Everything that the record says of itself is checked against its bytes
/// before it is used. It allocates only the text of a failure, which names the tensor, the byte of
/// the record and what was expected: kDamaged, or kUnsupported for complex numbers and for 4 GiB
/// and more. Thread safe.
Status LocateLoDTensors(std::span<const std::byte> record, std::span<const TensorField> fields,
                        FieldLocation* locations) {
  RecordReader reader(record);
  if (!reader.ReadCount(fields.size())) return reader.status();
  for (const TensorField& field : fields) {
    if (!reader.ReadTensor(field, locations)) return reader.status();
    locations += field.lod_levels + 1;
  }
  (void)reader.ReadEnd();
  return reader.status();
}

std::vector<TensorField> FieldsOf(const std::vector<LoDTensorSpec>& tensors) {
  std::vector<SlotSpec> slots;
  for (const LoDTensorSpec& spec : tensors) {
    if (!LoDTensorTypeOf(spec.dtype)) {
      Refuse("lod parser: tensor \"" + spec.name + "\": Paddle has no tensors of " +
             std::string(DTypeName(spec.dtype)));
    }
    slots.push_back({spec.name, spec.dtype, spec.shape, spec.lod_levels});
  }
  return MakeTensorFields(slots, "lod parser", "tensor");
}

class LoDRecordParser final : public LoDColumnsParser {
 public:
  explicit LoDRecordParser(const std::vector<LoDTensorSpec>& tensors)
      : tensors_(FieldsOf(tensors)) {
    for (const TensorField& tensor : tensors_) {
      AddTensorColumns({tensor.name, tensor.dtype, tensor.shape}, tensor.lod_levels);
    }
  }

  std::string name() const override { return "lod"; }
  void Locate(std::span<const RecordSpan> rows, FieldLocation* locations, Scratch*,
              std::vector<RowFailure>* failures) const override {
    for (std::size_t row = 0; row < rows.size(); ++row) {
      Status status =
          LocateLoDTensors(rows[row].bytes(), tensors_, locations + row * fields_.size());
      if (!status.ok()) failures->push_back({row, std::move(status)});
    }
  }

 private:
  const std::vector<TensorField> tensors_;
};

}  // namespace

std::shared_ptr<const Parser> LoDTensorParser(const std::vector<LoDTensorSpec>& tensors) {
  return std::make_shared<const LoDRecordParser>(tensors);
}

}  // namespace ringfeed
