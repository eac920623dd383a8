#include <cstring>
#include <utility>

#include "readers/parsers/parser.h"
#include "readers/parsers/parser_decorator.h"
#include "readers/parsers/wrappers/wrappers.h"

namespace ringfeed {

namespace {

class UnitsParser final : public ParserDecorator {
 public:
  UnitsParser(std::shared_ptr<const Parser> inner, std::size_t field)
      : ParserDecorator(std::move(inner)), field_(field) {
    fields_ = {{"units", DType::kUInt32, {}}};
    roles_.clear();
    gives_records_ = true;
    two_phase_ = true;  // though the field is fixed
  }

  void Locate(std::span<const RecordSpan> rows, FieldLocation* locations, Scratch* scratch,
              std::vector<RowFailure>* failures) const override {
    auto* own = static_cast<DecoratorScratch*>(scratch);
    const std::size_t fields = inner_->fields().size();
    own->locations.assign(rows.size() * fields, {});
    inner_->Locate(rows, own->locations.data(), own->inner.get(), failures);
    for (std::size_t row = 0; row < rows.size(); ++row) {
      locations[row].units = own->locations[row * fields + field_].units;
    }
    (void)inner_->TakeStorage(own->inner.get());
  }
  bool CopiesBytesOf(std::size_t /*field*/) const override { return false; }
  std::shared_ptr<const void> TakeStorage(Scratch* /*scratch*/) const override { return nullptr; }
  void Write(std::span<const RecordSpan> rows, const FieldLocation* locations,
             std::span<const ColumnTarget> targets, Scratch* /*scratch*/,
             std::vector<RowFailure>* /*failures*/) const override {
    std::byte* to = targets.front().data;
    for (std::size_t row = 0; row < rows.size(); ++row, to += sizeof(std::uint32_t)) {
      std::memcpy(to, &locations[row].units, sizeof(std::uint32_t));
    }
  }

 private:
  const std::size_t field_;
};

}  // namespace

std::shared_ptr<const Parser> MakeUnitsParser(std::shared_ptr<const Parser> inner,
                                              std::size_t field) {
  return std::make_shared<const UnitsParser>(std::move(inner), field);
}

}  // namespace ringfeed
