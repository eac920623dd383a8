#include <algorithm>
#include <utility>
#include <vector>

#include "readers/parsers/lod/lod_columns.h"
#include "readers/parsers/parser.h"
#include "readers/parsers/tensors/instance_record.h"
#include "ringfeed/parsers.h"

namespace ringfeed {
namespace {

InstanceSlots SlotsOf(const std::vector<SlotSpec>& slots) {
  // Protobuf writes no empty names: such a slot would be any field without a description.
  if (std::any_of(slots.begin(), slots.end(),
                  [](const SlotSpec& slot) { return slot.name.empty(); })) {
    throw Error(Status(StatusCode::kInvalidArgument, "instance parser: a slot needs its name"));
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

}  // namespace

std::shared_ptr<const Parser> InstanceProtoParser(const std::vector<SlotSpec>& slots) {
  return std::make_shared<const InstanceRecordParser>(slots);
}

}  // namespace ringfeed
