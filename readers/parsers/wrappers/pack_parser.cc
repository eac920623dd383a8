#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "base/refuse.h"
#include "readers/parsers/parser.h"
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

}  // namespace

struct PackParser::PackScratch final : DecoratorScratch {
  using DecoratorScratch::DecoratorScratch;

  std::vector<FieldLocation> locations;
};

PackParser::PackParser(std::shared_ptr<const Parser> inner, const PackOptions& options)
    : ParserDecorator(Truncated(std::move(inner), options)),
      length_(static_cast<std::uint32_t>(options.length)),
      unit_bytes_(inner_->fields()[0].unit_bytes()) {
  FieldSpec& values = fields_[0];
  values.shape[0] = length_;
  if (!ElementValue::Make(options.pad_value, values.dtype, &pad_)) {
    Refuse("Pack: " + std::to_string(options.pad_value) + " is no number that " +
           std::string(DTypeName(values.dtype)) + " holds exactly");
  }
  roles_.clear();  // a packed row has no levels
  const std::string name = values.name;
  AddField({name + "_segments", DType::kInt32, {length_}});
  AddField({name + "_positions", DType::kInt32, {length_}});
  two_phase_ = true;
}

std::unique_ptr<Parser::Scratch> PackParser::NewScratch() const {
  return std::make_unique<PackScratch>(inner_->NewScratch());
}

void PackParser::Locate(std::span<const RecordSpan> rows, FieldLocation* locations,
                        Scratch* scratch, std::vector<RowFailure>* failures) const {
  auto* own = static_cast<PackScratch*>(scratch);
  own->locations.assign(rows.size(), {});
  inner_->Locate(rows, own->locations.data(), own->inner.get(), failures);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    locations[row * fields_.size()] = own->locations[row];
  }
}

void PackParser::Write(std::span<const RecordSpan> rows, const FieldLocation* locations,
                       std::span<const ColumnTarget> targets, Scratch* scratch,
                       std::vector<RowFailure>* failures) const {
  std::vector<std::uint32_t> row_ends(rows.size());
  std::iota(row_ends.begin(), row_ends.end(), std::uint32_t{1});
  WritePacked(rows, locations, row_ends, 0, targets, scratch, failures);
}

void PackParser::WritePacked(std::span<const RecordSpan> records, const FieldLocation* locations,
                             std::span<const std::uint32_t> row_ends, std::uint32_t first,
                             std::span<const ColumnTarget> targets, Scratch* scratch,
                             std::vector<RowFailure>* failures) const {
  auto* own = static_cast<PackScratch*>(scratch);
  std::size_t record = 0;
  for (std::size_t row = 0; row < row_ends.size(); ++row) {
    std::size_t unit = row * length_;
    for (std::int32_t number = 1; record < row_ends[row] - first; ++record, ++number) {
      const FieldLocation& at = locations[record * fields_.size()];
      std::array<std::int64_t, 2> offsets{static_cast<std::int64_t>(unit), 0};
      const ColumnTarget target{targets[kValues].data, offsets.data()};
      const std::size_t already = failures->size();
      inner_->Write({&records[record], 1}, &at, {&target, 1}, own->inner.get(), failures);
      for (std::size_t i = already; i < failures->size(); ++i) (*failures)[i].row = record;
      std::fill_n(Numbers(targets[kSegments]) + unit, at.units, number);
      std::int32_t* const positions = Numbers(targets[kPositions]) + unit;
      std::iota(positions, positions + at.units, 0);
      unit += at.units;
    }
    Blank(targets, unit, (row + 1) * length_ - unit);
  }
}

void PackParser::Blank(std::span<const ColumnTarget> targets, std::size_t begin,
                       std::size_t units) const {
  pad_.Fill(targets[kValues].data + begin * unit_bytes_, units * unit_bytes_);
  std::fill_n(Numbers(targets[kSegments]) + begin, units, 0);
  std::fill_n(Numbers(targets[kPositions]) + begin, units, 0);
}

}  // namespace ringfeed
