#include <algorithm>
#include <string>
#include <utility>

#include "base/refuse.h"
#include "readers/parsers/located_rows.h"
#include "readers/parsers/lod_columns.h"
#include "readers/parsers/wrappers/wrappers.h"

namespace ringfeed {
namespace {

class InstanceParser final : public Parser {
 public:
  explicit InstanceParser(std::vector<FieldSpec> fields) {
    fields_ = std::move(fields);
    two_phase_ = units_alike_ = true;
  }
  std::string name() const override { return "instances"; }
  std::unique_ptr<Scratch> NewScratch() const override { return std::make_unique<Scratch>(); }

  void Locate(std::span<const RecordSpan> rows, FieldLocation* locations, Scratch* /*scratch*/,
              std::vector<RowFailure>* failures) const override {
    for (std::size_t row = 0; row < rows.size(); ++row) {
      const auto& instance = *reinterpret_cast<const Instance*>(rows[row].data);
      const Status status = LocateOne(instance, locations + row * fields_.size());
      if (!status.ok()) failures->push_back({row, status});
    }
  }
  void Write(std::span<const RecordSpan> rows, const FieldLocation* locations,
             std::span<const ColumnTarget> targets, Scratch* /*scratch*/,
             std::vector<RowFailure>* /*failures*/) const override {
    WriteLocated(fields_, rows.size(), locations, targets);
  }

 private:
  // Levels would be lost, except one that says the same as the first dimension.
  static bool IsOneRow(const Tensor& tensor) {
    return tensor.lod.empty() || (tensor.lod.size() == 1 && tensor.lod[0].size() == 2);
  }
  Status LocateOne(const Instance& instance, FieldLocation* locations) const {
    if (instance.size() != fields_.size()) {
      return Status(StatusCode::kInvalidArgument,
                    "the reader delivered " + std::to_string(instance.size()) + " tensors, " +
                        std::to_string(fields_.size()) + " are declared");
    }
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      const FieldSpec& field = fields_[f];
      const Tensor& tensor = instance[f];
      bool fits = tensor.dtype == field.dtype && tensor.shape.size() == field.shape.size();
      for (std::size_t d = 0; fits && d < field.shape.size(); ++d) {
        fits = tensor.shape[d] >= 0 && (field.shape[d] < 0 || field.shape[d] == tensor.shape[d]);
      }
      const std::size_t unit = field.unit_bytes();
      const std::size_t units =
          fits && field.ragged() ? static_cast<std::size_t>(tensor.shape[0]) : 1;
      if (!fits || tensor.bytes != units * unit) {
        return Status(StatusCode::kInvalidArgument,
                      "field " + std::to_string(f) + " \"" + field.name + "\": expected " +
                          std::string(DTypeName(field.dtype)) + ShapeToString(field.shape) +
                          ", found " + std::string(DTypeName(tensor.dtype)) +
                          ShapeToString(tensor.shape) + " in " + std::to_string(tensor.bytes) +
                          " bytes");
      }
      if (tensor.data == nullptr && tensor.bytes > 0) {
        return Status(StatusCode::kInvalidArgument,
                      "field " + std::to_string(f) + " \"" + field.name + "\": the data of its " +
                          std::to_string(tensor.bytes) + " bytes are null");
      }
      if (!IsOneRow(tensor)) {
        return Status(StatusCode::kInvalidArgument,
                      "field " + std::to_string(f) + " \"" + field.name +
                          "\": the reader delivered a tensor with levels (lod), which its fields "
                          "cannot declare; deliver each sequence as a row of its own");
      }
      if (!LocateAt(tensor.data, tensor.bytes, units, &locations[f])) {
        return Status(StatusCode::kUnsupported, "field " + std::to_string(f) + " \"" + field.name +
                                                    "\": a tensor of 4 GiB or more cannot be "
                                                    "batched");
      }
    }
    return Status();
  }
};

class SlotParser final : public LoDColumnsParser {
 public:
  explicit SlotParser(const std::vector<SlotSpec>& slots) {
    for (const SlotSpec& slot : slots) AddSlot(slot);
  }
  explicit SlotParser(const Parser& like) {
    for (std::size_t f = 0; f < like.fields().size(); ++f)
      AddColumn(like.fields()[f], like.role(f));
  }
  std::string name() const override { return "slots"; }

  void Locate(std::span<const RecordSpan> rows, FieldLocation* locations, Scratch* /*scratch*/,
              std::vector<RowFailure>* failures) const override {
    for (std::size_t row = 0; row < rows.size(); ++row) {
      const auto& instance = *reinterpret_cast<const Instance*>(rows[row].data);
      FieldLocation* const at = locations + row * fields_.size();
      std::size_t field = 0;
      for (const Tensor& tensor : instance) {
        Status status;
        for (const auto& level : tensor.lod) {
          if (!LocateLevel(level, at + field)) status = TooLarge("a level of a tensor's LoD");
          ++field;
        }
        if (!LocateValues(tensor, fields_[field].ragged(), at + field)) {
          status = TooLarge("a tensor");
        }
        ++field;
        if (status.ok()) continue;
        failures->push_back({row, std::move(status)});
        break;
      }
    }
  }

 private:
  void AddSlot(const SlotSpec& slot) {
    FieldSpec field{slot.name, slot.dtype, slot.dims};
    if (!field.shape.empty()) field.shape[0] = -1;
    const bool open = std::any_of(field.shape.begin() + (field.shape.empty() ? 0 : 1),
                                  field.shape.end(), [](std::int64_t dim) { return dim < 1; });
    if (open) {
      Refuse("slot \"" + slot.name + "\" of " + ShapeToString(slot.dims) +
             " cannot be batched: all dimensions but the first must be known");
    }
    AddTensorColumns(std::move(field), slot.lod_levels);
  }
  static bool LocateLevel(std::span<const std::int64_t> level, FieldLocation* at) {
    const std::span<const std::int64_t> ends = level.subspan(1);
    at->form = 0;
    return LocateAt(reinterpret_cast<const std::byte*>(ends.data()), ends.size_bytes(), ends.size(),
                    at);
  }
  static bool LocateValues(const Tensor& tensor, bool ragged, FieldLocation* at) {
    const auto units = static_cast<std::size_t>(ragged ? tensor.shape[0] : 1);
    at->form = 0;
    return LocateAt(tensor.data, tensor.bytes, units, at);
  }
  static Status TooLarge(const std::string& what) {
    return Status(StatusCode::kUnsupported, what + " of 4 GiB or more cannot be batched");
  }
};

}  // namespace

std::shared_ptr<const Parser> MakeInstanceParser(std::vector<FieldSpec> fields) {
  return std::make_shared<InstanceParser>(std::move(fields));
}

std::shared_ptr<const Parser> MakeSlotParser(const std::vector<SlotSpec>& slots) {
  return std::make_shared<SlotParser>(slots);
}

std::shared_ptr<const Parser> MakeParsedRowParser(const Parser& like) {
  return std::make_shared<SlotParser>(like);
}

}  // namespace ringfeed
