// Batches by Arrow's C data interface, its stream and its device variant.

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/owned.h"
#include "ringfeed/export/arrow_c.h"
#include "ringfeed/slot.h"

namespace ringfeed {
namespace {

using Owner = std::shared_ptr<const void>;

/// The target of a schema's private_data: all that it points to.
struct SchemaParts {
  std::string format;
  std::string name;
  std::vector<ArrowSchema> children;
  std::vector<ArrowSchema*> pointers;
};

/// The same of an array. Each column holds its memory itself, since a consumer may move it out.
struct ArrayParts {
  std::array<const void*, 3> buffers{};
  Owner values;
  Owner offsets;
  std::vector<ArrowArray> children;
  std::vector<ArrowArray*> pointers;
};

template <typename Parts, typename Structure>
void Release(Structure* structure) {
  const std::unique_ptr<Parts> parts(static_cast<Parts*>(structure->private_data));
  for (Structure& child : parts->children) {
    if (child.release != nullptr) child.release(&child);
  }
  structure->release = nullptr;
}

/// Both structures of a column while they are made; what nobody took is released.
struct Column {
  Owned<ArrowSchema> schema;
  Owned<ArrowArray> array;
};

ArrowSchema SchemaOf(std::string format, std::string name, std::vector<ArrowSchema> children) {
  auto parts = std::make_unique<SchemaParts>();
  parts->format = std::move(format);
  parts->name = std::move(name);
  parts->children = std::move(children);
  for (ArrowSchema& child : parts->children) parts->pointers.push_back(&child);
  ArrowSchema schema{};
  schema.format = parts->format.c_str();
  schema.name = parts->name.c_str();
  schema.n_children = static_cast<std::int64_t>(parts->pointers.size());
  schema.children = parts->pointers.empty() ? nullptr : parts->pointers.data();
  schema.release = &Release<SchemaParts, ArrowSchema>;
  schema.private_data = parts.release();
  return schema;
}

ArrowArray ArrayOf(std::int64_t length, std::int64_t buffers, ArrayParts made) {
  auto parts = std::make_unique<ArrayParts>(std::move(made));
  for (ArrowArray& child : parts->children) parts->pointers.push_back(&child);
  ArrowArray array{};
  array.length = length;
  array.n_buffers = buffers;
  array.n_children = static_cast<std::int64_t>(parts->pointers.size());
  array.buffers = parts->buffers.data();
  array.children = parts->pointers.empty() ? nullptr : parts->pointers.data();
  array.release = &Release<ArrayParts, ArrowArray>;
  array.private_data = parts.release();
  return array;
}

// A copy of a schema that SchemaOf made.
ArrowSchema CopyOf(const ArrowSchema& schema) {
  std::vector<ArrowSchema> children;
  for (std::int64_t i = 0; i < schema.n_children; ++i) {
    children.push_back(CopyOf(*schema.children[i]));
  }
  return SchemaOf(schema.format, schema.name, std::move(children));
}

bool AreAlike(const ArrowSchema& one, const ArrowSchema& other) {
  using std::string_view;
  if (string_view(one.format) != other.format || string_view(one.name) != other.name ||
      one.n_children != other.n_children) {
    return false;
  }
  return std::equal(
      one.children, one.children + one.n_children, other.children,
      [](const ArrowSchema* left, const ArrowSchema* right) { return AreAlike(*left, *right); });
}

// Null if Arrow has no such type.
const char* FormatOf(DType dtype) {
  static constexpr const char* kFormats[] = {"b", "C", "c", "S",     "s", "I", "i",
                                             "L", "l", "e", nullptr, "f", "g"};
  return kFormats[static_cast<std::size_t>(dtype)];
}

// Bools as Arrow has them: bits, the lowest first.
std::shared_ptr<std::vector<std::uint8_t>> BitsOf(std::span<const std::byte> bools) {
  auto bits = std::make_shared<std::vector<std::uint8_t>>((bools.size() + 7) / 8);
  for (std::size_t i = 0; i < bools.size(); ++i) {
    const auto bit = static_cast<unsigned>(bools[i] != std::byte{0}) << (i % 8);
    (*bits)[i / 8] = static_cast<std::uint8_t>((*bits)[i / 8] | bit);
  }
  return bits;
}

/// One field on its way to a column.
struct FieldToExport {
  std::string name;
  const Tensor& tensor;
  const Tensor* device_offsets = nullptr;

  bool on_device() const { return tensor.place.type == DeviceType::kCuda; }
  // (Any address does for no bytes, and some consumers ask for one.)
  const void* data() const {
    return tensor.data == nullptr ? "" : static_cast<const void*>(tensor.data);
  }
  bool is_binary() const {
    return tensor.dtype == kUInt8 && tensor.shape.size() == 1 && !tensor.lod.empty();
  }
};

Column Values(const FieldToExport& field, std::string name) {
  const Tensor& tensor = field.tensor;
  ArrayParts parts;
  parts.values = tensor.owner;
  parts.buffers[1] = field.data();
  const char* format = FormatOf(tensor.dtype);
  if (tensor.dtype == kBool && field.on_device()) {
    format = FormatOf(kUInt8);
  } else if (tensor.dtype == kBool) {
    const auto bits = BitsOf({tensor.data, tensor.bytes});
    parts.values = bits;
    if (!bits->empty()) parts.buffers[1] = bits->data();
  }
  Column column;
  column.schema = Owned(SchemaOf(format, std::move(name), {}));
  column.array = Owned(ArrayOf(ShapeElements(tensor.shape), 2, std::move(parts)));
  return column;
}

// A column of lists of what `child` has; takes that over.
Column ListsOf(Column child, std::string format, std::string name, std::int64_t length,
               std::int64_t buffers, ArrayParts parts) {
  Column column;
  parts.children = {child.array.Take()};
  column.array = Owned(ArrayOf(length, buffers, std::move(parts)));
  column.schema = Owned(SchemaOf(std::move(format), std::move(name), {child.schema.Take()}));
  return column;
}

// From the innermost values outwards.
Column ColumnOf(const FieldToExport& field) {
  const Tensor& tensor = field.tensor;
  const std::size_t levels = tensor.lod.size();
  const auto name_at = [&](bool is_outermost) {
    return is_outermost ? field.name : std::string("item");
  };
  Column column;
  if (!field.is_binary()) column = Values(field, name_at(tensor.shape.size() + levels == 1));
  for (std::size_t dim = tensor.shape.size(); dim-- > 1;) {
    const Shape outer(tensor.shape.begin(),
                      tensor.shape.begin() + static_cast<std::ptrdiff_t>(dim));
    column = ListsOf(std::move(column), "+w:" + std::to_string(tensor.shape[dim]),
                     name_at(dim + levels == 1), ShapeElements(outer), 1, {});
  }
  for (std::size_t level = levels; level-- > 0;) {
    const std::span<const std::int64_t> offsets = tensor.lod[level];
    const auto length = static_cast<std::int64_t>(offsets.size()) - 1;
    ArrayParts parts;
    parts.offsets = field.device_offsets != nullptr ? field.device_offsets->owner : tensor.owner;
    parts.buffers[1] = field.device_offsets != nullptr
                           ? static_cast<const void*>(field.device_offsets->data)
                           : offsets.data();
    if (field.is_binary() && level + 1 == levels) {
      parts.values = tensor.owner;
      parts.buffers[2] = field.data();
      column.schema = Owned(SchemaOf("Z", name_at(level == 0), {}));
      column.array = Owned(ArrayOf(length, 3, std::move(parts)));
    } else {
      column = ListsOf(std::move(column), "+L", name_at(level == 0), length, 2, std::move(parts));
    }
  }
  return column;
}

std::int64_t RowsOf(const Tensor& tensor) {
  return tensor.lod.empty() ? tensor.shape[0] : static_cast<std::int64_t>(tensor.lod[0].size()) - 1;
}

Status Refused(const FieldToExport& field, StatusCode code, const std::string& why) {
  return Status(code, (field.name.empty() ? "the field" : "field \"" + field.name + "\"") + why);
}

// Whether it can become a column.
Status Check(const FieldToExport& field) {
  const Tensor& tensor = field.tensor;
  if (tensor.shape.empty()) {
    return Refused(field, StatusCode::kInvalidArgument,
                   " has no dimension of rows: export what comes after Batch");
  }
  if (FormatOf(tensor.dtype) == nullptr) {
    return Refused(field, StatusCode::kUnsupported,
                   ": Arrow has no " + std::string(DTypeName(tensor.dtype)) +
                       ": hand it over by DLPack, or cast it to float32");
  }
  if (field.on_device() && !tensor.lod.empty() &&
      (tensor.lod.size() > 1 || field.device_offsets == nullptr)) {
    return Refused(
        field, StatusCode::kUnsupported,
        " is ragged, and the offsets of its rows do not lie on " + PlaceName(tensor.place));
  }
  return CheckTensor({field.name, tensor.dtype, tensor.shape, tensor.lod.size()}, tensor);
}

std::string NameOf(const Instance& batch, std::size_t field) {
  if (batch.names() != nullptr && field < batch.names()->names().size()) {
    return batch.names()->names()[field];
  }
  return batch.size() == 1 ? "bytes" : std::to_string(field);
}

Status Export(const Instance& batch, const std::vector<std::optional<Tensor>>& offsets,
              Column* made) {
  if (batch.is_record()) {
    return Status(StatusCode::kInvalidArgument,
                  "a record has no rows to make columns of: put Batch behind the chain");
  }
  std::vector<Column> columns;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const bool has_offsets = i < offsets.size() && offsets[i].has_value();
    const FieldToExport field{NameOf(batch, i), batch[i], has_offsets ? &*offsets[i] : nullptr};
    if (Status status = Check(field); !status.ok()) return status;
    if (RowsOf(batch[i]) != batch.Rows() || batch[i].place != batch[0].place) {
      return Refused(field, StatusCode::kInvalidArgument,
                     " has " + std::to_string(RowsOf(batch[i])) + " rows on " +
                         PlaceName(batch[i].place) + ", and the first one " +
                         std::to_string(batch.Rows()) + " on " + PlaceName(batch[0].place));
    }
    columns.push_back(ColumnOf(field));
  }
  std::vector<ArrowSchema> schemas;
  ArrayParts parts;
  for (Column& column : columns) {
    schemas.push_back(column.schema.Take());
    parts.children.push_back(column.array.Take());
  }
  made->schema = Owned(SchemaOf("+s", "", std::move(schemas)));
  made->array = Owned(ArrayOf(batch.Rows(), 1, std::move(parts)));
  return {};
}

Status NeedHost(Place place) {
  if (place.type != DeviceType::kCuda) return {};
  return Status(StatusCode::kUnsupported,
                "the memory lies on " + PlaceName(place) + ": export it by ExportArrowDevice");
}

void Take(Column* column, ArrowSchema* schema, ArrowArray* array) {
  *schema = column->schema.Take();
  *array = column->array.Take();
}

/// The target of a stream's private_data.
class ExportedStream {
 public:
  explicit ExportedStream(std::function<bool(Instance*)> next) : next_(std::move(next)) {}

  static ExportedStream* Of(ArrowArrayStream* stream) {
    return static_cast<ExportedStream*>(stream->private_data);
  }
  const char* error() const { return code_ == 0 ? nullptr : error_.c_str(); }

  int GetSchema(ArrowSchema* out) {
    if (!began_) Read();
    if (code_ != 0) return code_;
    *out = CopyOf(*type_);
    return 0;
  }

  int GetNext(ArrowArray* out) {
    if (!began_ || next_column_.array.is_released()) Read();
    if (code_ != 0) return code_;
    *out = next_column_.array.Take();  // released is the end
    return 0;
  }

 private:
  // Reads the next batch into next_column_; nothing at the end and after it.
  void Read() {
    if (code_ != 0 || ended_) return;
    try {
      Instance batch;
      ended_ = !next_(&batch);
      Column column;
      if (ended_ && began_) return;
      if (const Status status = ended_ ? Export({}, {}, &column) : ExportHost(batch, &column);
          !status.ok()) {
        return Fail(status.code() == StatusCode::kUnsupported ? ENOTSUP : EINVAL, status.message());
      }
      if (!began_) type_ = Owned(CopyOf(*column.schema));
      began_ = true;
      if (ended_) return;
      if (!AreAlike(*type_, *column.schema)) {
        return Fail(EINVAL, "a batch has other columns than the first one");
      }
      next_column_ = std::move(column);
    } catch (const std::exception& thrown) {
      Fail(EIO, thrown.what());
    }
  }

  static Status ExportHost(const Instance& batch, Column* column) {
    if (batch.empty()) return Export(batch, {}, column);
    if (Status status = NeedHost(batch[0].place); !status.ok()) return status;
    return Export(batch, {}, column);
  }

  void Fail(int code, std::string error) {
    code_ = code;
    error_ = std::move(error);
  }

  const std::function<bool(Instance*)> next_;
  Column next_column_;
  Owned<ArrowSchema> type_;
  bool began_ = false;
  bool ended_ = false;
  int code_ = 0;
  std::string error_;
};

}  // namespace

Status ExportArrow(const Instance& batch, ArrowSchema* schema, ArrowArray* array) {
  if (!batch.empty()) {
    if (Status status = NeedHost(batch[0].place); !status.ok()) return status;
  }
  Column made;
  if (Status status = Export(batch, {}, &made); !status.ok()) return status;
  Take(&made, schema, array);
  return {};
}

Status ExportArrow(const Tensor& field, ArrowSchema* schema, ArrowArray* array) {
  const FieldToExport named{"", field};
  if (Status status = NeedHost(field.place); !status.ok()) return status;
  if (Status status = Check(named); !status.ok()) return status;
  Column made = ColumnOf(named);
  Take(&made, schema, array);
  return {};
}

Status ExportArrowDevice(const Instance& batch, const std::vector<std::optional<Tensor>>& offsets,
                         ArrowSchema* schema, ArrowDeviceArray* array) {
  Column made;
  if (Status status = Export(batch, offsets, &made); !status.ok()) return status;
  *array = {};
  const bool on_device = !batch.empty() && batch[0].place.type == DeviceType::kCuda;
  array->device_type = on_device ? ARROW_DEVICE_CUDA : ARROW_DEVICE_CPU;
  array->device_id = on_device ? batch[0].place.device : -1;
  Take(&made, schema, &array->array);
  return {};
}

void ExportArrowStream(std::function<bool(Instance*)> next, ArrowArrayStream* stream) {
  *stream = {};
  stream->get_schema = [](ArrowArrayStream* self, ArrowSchema* out) {
    return ExportedStream::Of(self)->GetSchema(out);
  };
  stream->get_next = [](ArrowArrayStream* self, ArrowArray* out) {
    return ExportedStream::Of(self)->GetNext(out);
  };
  stream->get_last_error = [](ArrowArrayStream* self) { return ExportedStream::Of(self)->error(); };
  stream->release = [](ArrowArrayStream* self) {
    delete ExportedStream::Of(self);
    self->release = nullptr;
  };
  stream->private_data = new ExportedStream(std::move(next));
}

}  // namespace ringfeed
