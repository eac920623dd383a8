#include <string>
#include <vector>

#include "readers/formats/builders/tensor_layouts.h"
#include "readers/parsers/lod/lod_columns.h"
#include "readers/parsers/lod/lod_tensor_record.h"
#include "readers/parsers/parser.h"
#include "ringfeed/parsers.h"

namespace ringfeed {
namespace {

std::vector<TensorField> FieldsOf(const std::vector<LoDTensorSpec>& tensors) {
  std::vector<SlotSpec> slots;
  for (const LoDTensorSpec& spec : tensors) {
    if (!LoDTensorTypeOf(spec.dtype)) {
      throw Error(Status(StatusCode::kInvalidArgument, "lod parser: tensor \"" + spec.name +
                                                           "\": Paddle has no tensors of " +
                                                           std::string(DTypeName(spec.dtype))));
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
