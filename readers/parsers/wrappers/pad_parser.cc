#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "base/little_endian.h"
#include "base/refuse.h"
#include "readers/parsers/element_value.h"
#include "readers/parsers/located_rows.h"
#include "readers/parsers/parser.h"
#include "readers/parsers/parser_decorator.h"
#include "readers/parsers/wrappers/wrappers.h"

namespace ringfeed {

namespace {

struct PadScratch final : DecoratorScratch {
  using DecoratorScratch::DecoratorScratch;

  std::vector<ColumnTarget> targets;
};

/// The last field's location is that of the padded field, as the inner parser made it.
class PadParser final : public ParserDecorator {
 public:
  PadParser(std::shared_ptr<const Parser> inner, std::size_t field, const PadOptions& options,
            const ElementValue& value)
      : ParserDecorator(std::move(inner)),
        inner_fields_(inner_->fields().size()),
        field_(field),
        length_(options.length),
        multiple_(options.multiple),
        value_(value),
        row_targets_(inner_->fields()),
        unit_bytes_(inner_->fields()[field].unit_bytes()) {
    if (length_ != 0) fields_[field].shape[0] = static_cast<std::int64_t>(length_);
    const std::string lengths = fields_[field].name + "_length";
    if (!AddField({lengths, DType::kInt64, {}})) {
      Refuse("Pad: there is a field \"" + lengths + "\" already, the name of its own");
    }
    two_phase_ = true;
  }

  std::unique_ptr<Scratch> NewScratch() const override {
    return std::make_unique<PadScratch>(inner_->NewScratch());
  }
  void Locate(std::span<const RecordSpan> rows, FieldLocation* locations, Scratch* scratch,
              std::vector<RowFailure>* failures) const override;
  bool Cut(std::size_t field, std::uint32_t units, FieldLocation* location) const override {
    return field != field_ && inner_->Cut(field, units, location);
  }
  /// Rows are written one by one, each with its padding: a row's bytes may not be left out.
  bool CopiesBytesOf(std::size_t /*field*/) const override { return false; }
  bool ReadsBytes() const override { return true; }
  void Write(std::span<const RecordSpan> rows, const FieldLocation* locations,
             std::span<const ColumnTarget> targets, Scratch* scratch,
             std::vector<RowFailure>* failures) const override;

 private:
  bool Pad(std::size_t units, std::size_t* padded) const;
  void WriteRow(const RecordSpan& record, const FieldLocation* locations,
                std::span<const ColumnTarget> targets, std::size_t row, PadScratch* scratch,
                std::vector<RowFailure>* failures) const;

  const std::size_t inner_fields_;
  const std::size_t field_;
  const std::size_t length_;
  const std::size_t multiple_;
  const ElementValue value_;
  const RowTargets row_targets_;
  const std::size_t unit_bytes_;
};

// Counts the units with the padding; false if there is no such row.
bool PadParser::Pad(std::size_t units, std::size_t* padded) const {
  *padded = length_ != 0 ? length_ : (units + multiple_ - 1) / multiple_ * multiple_;
  return units <= *padded && *padded <= std::numeric_limits<std::uint32_t>::max();
}

void PadParser::Locate(std::span<const RecordSpan> rows, FieldLocation* locations, Scratch* scratch,
                       std::vector<RowFailure>* failures) const {
  const std::size_t already = failures->size();
  LocateInner(rows, locations, scratch, failures);
  for (std::size_t i = already; i < failures->size(); ++i) {
    locations[(*failures)[i].row * fields_.size() + field_] = {};
  }
  for (std::size_t row = 0; row < rows.size(); ++row) {
    FieldLocation* const to = locations + row * fields_.size();
    const FieldLocation inner = to[field_];
    to[inner_fields_] = inner;
    std::size_t padded = 0;
    if (Pad(inner.units, &padded)) {
      to[field_].units = static_cast<std::uint32_t>(padded);
      continue;
    }
    failures->push_back(
        {row, Status(StatusCode::kDamaged,
                     "field \"" + fields_[field_].name + "\" has " + std::to_string(inner.units) +
                         " units where Pad makes rows of " + std::to_string(length_) +
                         ": put Truncate in front")});
  }
  std::sort(failures->begin() + static_cast<std::ptrdiff_t>(already), failures->end(),
            [](const RowFailure& a, const RowFailure& b) { return a.row < b.row; });
}

void PadParser::Write(std::span<const RecordSpan> rows, const FieldLocation* locations,
                      std::span<const ColumnTarget> targets, Scratch* scratch,
                      std::vector<RowFailure>* failures) const {
  auto* own = static_cast<PadScratch*>(scratch);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    WriteRow(rows[row], locations + row * fields_.size(), targets, row, own, failures);
  }
}

void PadParser::WriteRow(const RecordSpan& record, const FieldLocation* locations,
                         std::span<const ColumnTarget> targets, std::size_t row,
                         PadScratch* scratch, std::vector<RowFailure>* failures) const {
  scratch->locations.assign(locations, locations + inner_fields_);
  const FieldLocation& inner = scratch->locations[field_] = locations[inner_fields_];
  row_targets_.From(targets, row, &scratch->targets);
  std::int64_t* const ends = targets[field_].offsets;
  const std::size_t begin = ends != nullptr ? static_cast<std::size_t>(ends[row]) : row * length_;
  std::array<std::int64_t, 2> offsets{static_cast<std::int64_t>(begin), 0};
  scratch->targets[field_] = {targets[field_].data, offsets.data()};
  const std::size_t already = failures->size();
  inner_->Write({&record, 1}, scratch->locations.data(), scratch->targets, scratch->inner.get(),
                failures);
  for (std::size_t i = already; i < failures->size(); ++i) (*failures)[i].row = row;
  std::size_t padded = 0;
  (void)Pad(inner.units, &padded);
  value_.Fill(targets[field_].data + (begin + inner.units) * unit_bytes_,
              (padded - inner.units) * unit_bytes_);
  if (ends != nullptr) ends[row + 1] = static_cast<std::int64_t>(begin + padded);
  StoreLe(targets[inner_fields_].data + row * sizeof(std::int64_t),
          static_cast<std::int64_t>(inner.units));
}

}  // namespace

std::shared_ptr<const Parser> MakePadParser(std::shared_ptr<const Parser> inner,
                                            const std::string& field, const PadOptions& options) {
  const std::size_t number = FindRaggedField(*inner, field, "Pad");
  const DType dtype = inner->fields()[number].dtype;
  const ElementValue value = ElementValue::Of(options.value, dtype, "Pad");
  return std::make_shared<PadParser>(std::move(inner), number, options, value);
}

}  // namespace ringfeed
