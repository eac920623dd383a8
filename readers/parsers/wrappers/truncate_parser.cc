#include <algorithm>
#include <array>
#include <deque>
#include <utility>
#include <vector>

#include "readers/parsers/located_rows.h"
#include "readers/parsers/parser.h"
#include "readers/parsers/parser_decorator.h"
#include "readers/parsers/wrappers/wrappers.h"

namespace ringfeed {

namespace {

/// The form of a location whose `data` points at the inner parser's own FieldLocation, which has
/// more units.
constexpr std::uint32_t kFormAside = ~std::uint32_t{0};

/// Locations as the inner parser made them: they never move.
using Wholes = std::deque<FieldLocation>;

struct TruncateScratch final : DecoratorScratch {
  using DecoratorScratch::DecoratorScratch;

  std::shared_ptr<Wholes> wholes;
  std::uint32_t truncated = 0;
  std::vector<FieldLocation> row;
  std::vector<ColumnTarget> targets;
  std::vector<std::byte> values;  // of the row that is written to another place
};

class TruncateParser final : public ParserDecorator {
 public:
  TruncateParser(std::shared_ptr<const Parser> inner, std::size_t field, std::uint32_t length)
      : ParserDecorator(std::move(inner)),
        field_(field),
        length_(length),
        row_targets_(inner_->fields()),
        unit_bytes_(inner_->fields()[field].unit_bytes()) {
    two_phase_ = true;
  }

  std::unique_ptr<Scratch> NewScratch() const override {
    return std::make_unique<TruncateScratch>(inner_->NewScratch());
  }
  void Locate(std::span<const RecordSpan> rows, FieldLocation* locations, Scratch* scratch,
              std::vector<RowFailure>* failures) const override;
  bool Cut(std::size_t field, std::uint32_t units, FieldLocation* location) const override {
    if (field != field_ || location->form != kFormAside) {
      return inner_->Cut(field, units, location);
    }
    location->units = units;
    return true;
  }
  std::span<const std::byte> BytesOf(std::size_t field, const RecordSpan& record,
                                     const FieldLocation& at) const override {
    if (field == field_ && at.form == kFormAside) return {};
    return inner_->BytesOf(field, record, at);
  }
  /// A row that is put aside is written here, before its beginning is copied.
  bool ReadsBytes() const override { return true; }
  std::shared_ptr<const void> TakeStorage(Scratch* scratch) const override;
  std::uint32_t TakeTruncated(Scratch* scratch) const override {
    auto* own = static_cast<TruncateScratch*>(scratch);
    return std::exchange(own->truncated, 0) + inner_->TakeTruncated(own->inner.get());
  }
  void Write(std::span<const RecordSpan> rows, const FieldLocation* locations,
             std::span<const ColumnTarget> targets, Scratch* scratch,
             std::vector<RowFailure>* failures) const override;

 private:
  bool IsAside(const FieldLocation* locations, std::size_t row) const {
    return locations[row * fields_.size() + field_].form == kFormAside;
  }
  void WriteRun(std::span<const RecordSpan> rows, const FieldLocation* locations,
                std::span<const ColumnTarget> targets, std::size_t begin, std::size_t end,
                TruncateScratch* scratch, std::vector<RowFailure>* failures) const;
  void WriteAside(const RecordSpan& record, const FieldLocation* locations,
                  std::span<const ColumnTarget> targets, std::size_t row, TruncateScratch* scratch,
                  std::vector<RowFailure>* failures) const;

  const std::size_t field_;
  const std::uint32_t length_;
  const RowTargets row_targets_;
  const std::size_t unit_bytes_;
};

void TruncateParser::Locate(std::span<const RecordSpan> rows, FieldLocation* locations,
                            Scratch* scratch, std::vector<RowFailure>* failures) const {
  auto* own = static_cast<TruncateScratch*>(scratch);
  const std::size_t stride = fields_.size();
  const std::size_t already = failures->size();
  for (std::size_t row = 0; row < rows.size(); ++row) locations[row * stride + field_].form = 0;
  inner_->Locate(rows, locations, own->inner.get(), failures);
  // The location of a row that failed means nothing.
  for (std::size_t i = already; i < failures->size(); ++i) {
    locations[(*failures)[i].row * stride + field_] = {};
  }
  for (std::size_t row = 0; row < rows.size(); ++row) {
    FieldLocation& at = locations[row * stride + field_];
    if (at.units <= length_) continue;
    ++own->truncated;
    if (inner_->Cut(field_, length_, &at)) continue;
    if (own->wholes == nullptr) own->wholes = std::make_shared<Wholes>();
    own->wholes->push_back(at);
    at = {reinterpret_cast<const std::byte*>(&own->wholes->back()), 0, length_, kFormAside};
  }
}

std::shared_ptr<const void> TruncateParser::TakeStorage(Scratch* scratch) const {
  auto* own = static_cast<TruncateScratch*>(scratch);
  auto storage = inner_->TakeStorage(own->inner.get());
  if (own->wholes == nullptr) return storage;
  using Both = std::pair<std::shared_ptr<const void>, std::shared_ptr<const void>>;
  return std::make_shared<const Both>(std::move(storage), std::exchange(own->wholes, nullptr));
}

void TruncateParser::Write(std::span<const RecordSpan> rows, const FieldLocation* locations,
                           std::span<const ColumnTarget> targets, Scratch* scratch,
                           std::vector<RowFailure>* failures) const {
  auto* own = static_cast<TruncateScratch*>(scratch);
  for (std::size_t begin = 0; begin < rows.size();) {
    std::size_t end = begin;
    while (end < rows.size() && !IsAside(locations, end)) ++end;
    if (begin < end) WriteRun(rows, locations, targets, begin, end, own, failures);
    if (end < rows.size()) WriteAside(rows[end], locations, targets, end, own, failures);
    begin = end + 1;
  }
}

void TruncateParser::WriteRun(std::span<const RecordSpan> rows, const FieldLocation* locations,
                              std::span<const ColumnTarget> targets, std::size_t begin,
                              std::size_t end, TruncateScratch* scratch,
                              std::vector<RowFailure>* failures) const {
  row_targets_.From(targets, begin, &scratch->targets);
  const std::size_t already = failures->size();
  inner_->Write(rows.subspan(begin, end - begin), locations + begin * fields_.size(),
                scratch->targets, scratch->inner.get(), failures);
  for (std::size_t i = already; i < failures->size(); ++i) (*failures)[i].row += begin;
}

void TruncateParser::WriteAside(const RecordSpan& record, const FieldLocation* locations,
                                std::span<const ColumnTarget> targets, std::size_t row,
                                TruncateScratch* scratch, std::vector<RowFailure>* failures) const {
  const FieldLocation* const first = locations + row * fields_.size();
  scratch->row.assign(first, first + fields_.size());
  const FieldLocation cut = scratch->row[field_];
  scratch->row[field_] = *reinterpret_cast<const FieldLocation*>(cut.data);
  scratch->values.resize(scratch->row[field_].units * unit_bytes_);
  row_targets_.From(targets, row, &scratch->targets);
  const ColumnTarget target = scratch->targets[field_];
  std::array<std::int64_t, 2> offsets{};
  scratch->targets[field_] = {scratch->values.data(), offsets.data()};
  const std::size_t already = failures->size();
  inner_->Write({&record, 1}, scratch->row.data(), scratch->targets, scratch->inner.get(),
                failures);
  for (std::size_t i = already; i < failures->size(); ++i) (*failures)[i].row = row;
  std::copy_n(scratch->values.data(), cut.units * unit_bytes_,
              target.data + static_cast<std::size_t>(target.offsets[0]) * unit_bytes_);
  target.offsets[1] = target.offsets[0] + cut.units;
}

}  // namespace

std::shared_ptr<const Parser> MakeTruncateParser(std::shared_ptr<const Parser> inner,
                                                 const std::string& field, std::uint32_t length) {
  const std::size_t number = FindRaggedField(*inner, field, "Truncate");
  return std::make_shared<TruncateParser>(std::move(inner), number, length);
}

}  // namespace ringfeed
