#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "base/refuse.h"
#include "readers/parsers/element_value.h"
#include "readers/parsers/parser.h"
#include "readers/parsers/parser_decorator.h"
#include "readers/parsers/wrappers/wrappers.h"

namespace ringfeed {

namespace {

std::shared_ptr<const Parser> Truncated(std::shared_ptr<const Parser> inner,
                                        const PackOptions& options) {
  (void)FindRaggedField(*inner, options.field, "Pack");
  if (inner->fields().size() != 1) {
    Refuse("Pack packs one field, the chain has " + std::to_string(inner->fields().size()) +
           ": parse \"" + options.field + "\" alone, or put a Map in front that gives it");
  }
  return MakeTruncateParser(std::move(inner), options.field,
                            static_cast<std::uint32_t>(options.length));
}

std::int32_t* Numbers(const ColumnTarget& target) {
  return reinterpret_cast<std::int32_t*>(target.data);
}

constexpr std::size_t kValues = 0;
constexpr std::size_t kSegments = 1;
constexpr std::size_t kPositions = 2;

/// Its locations of segments and positions are the record's place.
class PackParser final : public ParserDecorator {
 public:
  PackParser(std::shared_ptr<const Parser> inner, const PackOptions& options);

  void Locate(std::span<const RecordSpan> rows, FieldLocation* locations, Scratch* scratch,
              std::vector<RowFailure>* failures) const override;
  /// A row has several records' bytes, and what fills it up.
  bool CopiesBytesOf(std::size_t /*field*/) const override { return false; }
  bool ReadsBytes() const override { return true; }
  void WriteMissing(std::size_t field, std::span<std::byte> row) const override {
    if (field == kValues) return pad_.Fill(row.data(), row.size());
    ParserDecorator::WriteMissing(field, row);
  }
  void Write(std::span<const RecordSpan> rows, const FieldLocation* locations,
             std::span<const ColumnTarget> targets, Scratch* scratch,
             std::vector<RowFailure>* failures) const override;

 private:
  /// Makes `units` units empty, from `begin` units after the targets' start.
  void Blank(std::span<const ColumnTarget> targets, std::size_t begin, std::size_t units) const;

  const std::uint32_t length_;
  const std::size_t unit_bytes_;
  ElementValue pad_;
};

PackParser::PackParser(std::shared_ptr<const Parser> inner, const PackOptions& options)
    : ParserDecorator(Truncated(std::move(inner), options)),
      length_(static_cast<std::uint32_t>(options.length)),
      unit_bytes_(inner_->fields()[0].unit_bytes()) {
  FieldSpec& values = fields_[0];
  values.shape[0] = length_;
  pad_ = ElementValue::Of(options.pad_value, values.dtype, "Pack");
  roles_.clear();  // a packed row has no levels
  const std::string name = values.name;
  AddField({name + "_segments", DType::kInt32, {length_}});
  AddField({name + "_positions", DType::kInt32, {length_}});
  two_phase_ = true;
}

void PackParser::Locate(std::span<const RecordSpan> rows, FieldLocation* locations,
                        Scratch* scratch, std::vector<RowFailure>* failures) const {
  LocateInner(rows, locations, scratch, failures);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    FieldLocation* const at = locations + row * kPackFields;
    SetPackedPlace({1, 0, length_ - at->units, true}, at);
  }
}

void PackParser::Write(std::span<const RecordSpan> rows, const FieldLocation* locations,
                       std::span<const ColumnTarget> targets, Scratch* scratch,
                       std::vector<RowFailure>* failures) const {
  std::size_t first_unit = 0;  // of the record's row
  for (std::size_t record = 0; record < rows.size(); ++record) {
    const FieldLocation& at = locations[record * kPackFields];
    const PackedPlace place = PackedPlaceOf(&at);
    if (place.starts_row) {
      if (record > 0) first_unit += length_;
      Blank(targets, first_unit, place.begin);
    }
    const std::size_t unit = first_unit + place.begin;
    if (rows[record].damaged()) {
      Blank(targets, unit, at.units);
    } else {
      std::array<std::int64_t, 2> offsets{static_cast<std::int64_t>(unit), 0};
      const ColumnTarget target{targets[kValues].data, offsets.data()};
      const std::size_t already = failures->size();
      inner_->Write(rows.subspan(record, 1), &at, {&target, 1}, Inner(scratch), failures);
      for (std::size_t i = already; i < failures->size(); ++i) (*failures)[i].row = record;
      std::fill_n(Numbers(targets[kSegments]) + unit, at.units,
                  static_cast<std::int32_t>(place.number));
      std::int32_t* const positions = Numbers(targets[kPositions]) + unit;
      std::iota(positions, positions + at.units, 0);
    }
    Blank(targets, unit + at.units, place.rest);
  }
}

void PackParser::Blank(std::span<const ColumnTarget> targets, std::size_t begin,
                       std::size_t units) const {
  pad_.Fill(targets[kValues].data + begin * unit_bytes_, units * unit_bytes_);
  std::fill_n(Numbers(targets[kSegments]) + begin, units, 0);
  std::fill_n(Numbers(targets[kPositions]) + begin, units, 0);
}

}  // namespace

void SetPackedPlace(const PackedPlace& place, FieldLocation* locations) {
  locations[kSegments].units = place.number;
  locations[kPositions].units = place.begin;
  locations[kPositions].bytes = place.rest;
  locations[kPositions].form = place.starts_row ? 1 : 0;
}

PackedPlace PackedPlaceOf(const FieldLocation* locations) {
  return {locations[kSegments].units, locations[kPositions].units, locations[kPositions].bytes,
          locations[kPositions].form != 0};
}

std::shared_ptr<const Parser> MakePackParser(std::shared_ptr<const Parser> inner,
                                             const PackOptions& options) {
  return std::make_shared<PackParser>(std::move(inner), options);
}

}  // namespace ringfeed
