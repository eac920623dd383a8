#include <algorithm>
#include <string>
#include <utility>

#include "readers/formats/lod_tensor_layout.h"
#include "readers/parsers/field_row.h"
#include "readers/parsers/lod_columns.h"
#include "readers/parsers/lod_tensor_record.h"
#include "readers/parsers/parser.h"
#include "ringfeed/parsers.h"

namespace ringfeed {
namespace {

constexpr std::size_t kMostLevels = 16;
// A row stays far below what a count of bytes can hold.
constexpr std::int64_t kMostElements = std::int64_t{1} << 28;

[[noreturn]] void Refuse(const std::string& why) {
  throw Error(Status(StatusCode::kInvalidArgument, "lod parser: " + why));
}

LoDTensorField MakeField(const LoDTensorSpec& spec) {
  const auto refuse = [&](const std::string& why) {
    Refuse("tensor \"" + spec.name + "\": " + why);
  };
  FieldRow row;
  if (const char* why = SetFieldRow({spec.name, spec.dtype, spec.shape}, kMostElements, &row)) {
    refuse(why);
  }
  if (!LoDTensorTypeOf(spec.dtype)) {
    refuse("Paddle has no tensors of " + std::string(DTypeName(spec.dtype)));
  }
  if (spec.lod_levels > kMostLevels) {
    refuse("it has at most " + std::to_string(kMostLevels) + " levels of LoD");
  }
  if (spec.lod_levels > 0 && !row.ragged) {
    refuse("with LoD its first dimension is -1, the rows of all sequences");
  }
  return {spec.name, spec.dtype, spec.shape, spec.lod_levels, row.unit_bytes};
}

class LoDRecordParser final : public LoDColumnsParser {
 public:
  explicit LoDRecordParser(const std::vector<LoDTensorSpec>& tensors) {
    if (tensors.empty()) Refuse("name at least one tensor");
    for (const LoDTensorSpec& spec : tensors) AddTensor(spec);
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
  void AddTensor(const LoDTensorSpec& spec);

  std::vector<LoDTensorField> tensors_;
};

void LoDRecordParser::AddTensor(const LoDTensorSpec& spec) {
  const auto same = [&](const LoDTensorField& other) { return other.name == spec.name; };
  if (std::any_of(tensors_.begin(), tensors_.end(), same)) {
    Refuse("\"" + spec.name + "\" is named twice");
  }
  tensors_.push_back(MakeField(spec));
  AddTensorColumns({spec.name, spec.dtype, spec.shape}, spec.lod_levels);
}

}  // namespace

std::shared_ptr<const Parser> LoDTensorParser(const std::vector<LoDTensorSpec>& tensors) {
  return std::make_shared<const LoDRecordParser>(tensors);
}

}  // namespace ringfeed
