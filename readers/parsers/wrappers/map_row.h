#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/refuse.h"
#include "readers/parsers/current_rows.h"
#include "readers/parsers/located_rows.h"
#include "readers/parsers/parser.h"
#include "ringfeed/decorators.h"

namespace ringfeed {

/// Parses single records for a Map function and shows the fields as tensors.
class RowView {
 public:
  explicit RowView(const Parser* parser) : parser_(parser) {
    if (parser_ == nullptr) return;
    scratch_ = parser_->NewScratch();
    locations_.resize(parser_->row_locations());
    values_.resize(parser_->fields().size());
    targets_.resize(parser_->fields().size());
    offsets_.resize(parser_->fields().size());
    columns_.resize(parser_->fields().size());
    std::vector<std::string> names;
    for (FieldSpec& field : TensorFields(*parser_)) names.push_back(std::move(field.name));
    names_ = std::make_shared<const FieldNames>(std::move(names));
    columns_.set_names(names_);
    columns_.set_is_record(!parser_->has_lod());
  }

  /// The record's fields, valid until the next call; null without a parser.
  const Instance* Parse(const RecordSpan& record, Status* status) {
    if (parser_ == nullptr) return nullptr;
    failures_.clear();
    if (parser_->two_phase()) {
      parser_->Locate({&record, 1}, locations_.data(), scratch_.get(), &failures_);
      storage_ = parser_->TakeStorage(scratch_.get());
    }
    if (failures_.empty()) WriteRow(record);
    if (!failures_.empty()) {
      *status = failures_.front().status;
      return nullptr;
    }
    return parser_->has_lod() ? &instance_ : &columns_;
  }
  /// One of the parser's own fields, of the record that was parsed last.
  const Tensor& column(std::size_t field) const { return columns_[field]; }

 private:
  void WriteRow(const RecordSpan& record) {
    const auto& fields = parser_->fields();
    for (std::size_t f = 0; f < fields.size(); ++f) {
      const std::size_t units = fields[f].ragged() ? locations_[f].units : 1;
      const std::size_t lead = LeadBytes(*parser_, f);  // zeros since it was made
      values_[f].resize(lead + std::max<std::size_t>(units * fields[f].unit_bytes(), 1));
      offsets_[f] = {0, 0};
      targets_[f] = {values_[f].data() + lead, offsets_[f].data()};
    }
    parser_->Write({&record, 1}, parser_->two_phase() ? locations_.data() : nullptr, targets_,
                   scratch_.get(), &failures_);
    for (std::size_t f = 0; f < fields.size(); ++f) {
      Tensor& tensor = columns_[f];
      tensor.dtype = fields[f].dtype;
      tensor.shape = fields[f].shape;
      const std::size_t units = fields[f].ragged() ? locations_[f].units : 1;
      if (fields[f].ragged()) tensor.shape[0] = static_cast<std::int64_t>(units);
      tensor.data = targets_[f].data;
      tensor.bytes = units * fields[f].unit_bytes();
    }
    if (!parser_->has_lod()) return;
    instance_ = JoinLevels(*parser_, columns_);
    instance_.set_names(names_);
    instance_.set_is_record(parser_->gives_records());
  }

  const Parser* const parser_;
  std::unique_ptr<Parser::Scratch> scratch_;
  std::shared_ptr<const void> storage_;
  std::vector<FieldLocation> locations_;
  std::vector<std::vector<std::byte>> values_;
  std::vector<std::vector<std::int64_t>> offsets_;
  std::vector<ColumnTarget> targets_;
  std::vector<RowFailure> failures_;
  std::shared_ptr<const FieldNames> names_;
  Instance columns_;
  Instance instance_;  // columns_ without levels of LoD, if it has any
};

/// Takes the function's output of one row, and notes which of its fields it wrote.
class RowPlace final : public RowWriter {
 public:
  explicit RowPlace(const std::vector<FieldSpec>& fields)
      : fields_(fields),
        places_(fields.size()),
        unwritten_((fields.size() + kWordBits - 1) / kWordBits) {}

  std::span<std::byte> Fixed(std::size_t field) override {
    if (Field(field).ragged()) {
      RefuseField(field, "has rows of any length: it is written by Ragged, not by Fixed");
    }
    NoteWritten(field);
    return places_[field];
  }
  void Ragged(std::size_t field, std::span<const std::byte> values) override {
    CheckRagged(field, "Ragged");
    if (values.size() % fields_[field].unit_bytes() != 0) {
      RefuseField(field, "takes a multiple of " + std::to_string(fields_[field].unit_bytes()) +
                             " bytes, not " + std::to_string(values.size()));
    }
    NoteWritten(field);
    std::span<std::byte>& place = places_[field];
    const bool is_reserved = !place.empty() && values.data() == place.data();
    if (is_reserved && values.size() <= place.size()) {
      if (place.data() + Aligned(place.size()) == last_end_) {
        last_end_ = place.data() + Aligned(values.size());
        storage_.EndAt(last_end_);
      }
      place = place.first(values.size());
      return;
    }
    place = Allocate(values.size());
    std::copy(values.begin(), values.end(), place.begin());
  }
  /// Writes a field of either kind.
  void Set(std::size_t field, std::span<const std::byte> values) {
    if (fields_[field].ragged()) return Ragged(field, values);
    std::copy(values.begin(), values.end(), Fixed(field).begin());
  }
  std::span<std::byte> Reserve(std::size_t field, std::size_t bytes) override {
    CheckRagged(field, "Reserve");
    return places_[field] = Allocate(bytes);
  }
  void Skip(std::string_view reason) override { refused_.emplace(reason); }

  /// Begins a row: nothing of it is written yet. Its fixed fields are to be written to `targets`.
  void BeginRow(std::span<const ColumnTarget> targets, std::size_t row) {
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      places_[f] = {targets[f].data + row * fields_[f].unit_bytes(), fields_[f].unit_bytes()};
    }
    BeginFields();
  }
  /// The same, with places in memory that TakeStorage gives.
  void BeginRow() {
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      places_[f] = fields_[f].ragged() ? std::span<std::byte>() : Allocate(fields_[f].unit_bytes());
    }
    BeginFields();
  }
  /// Why the function refused the row; null if it did not.
  const std::string* refused() const { return refused_ ? &*refused_ : nullptr; }
  std::span<const std::byte> place(std::size_t field) const { return places_[field]; }
  std::shared_ptr<const void> TakeStorage() { return storage_.Take(); }
  /// The first of the first `count` fields that is not written yet; null if all are.
  const FieldSpec* Unwritten(std::size_t count) const {
    for (std::size_t word = 0; word < unwritten_.size(); ++word) {
      if (unwritten_[word] == 0) continue;
      const std::size_t field =
          word * kWordBits + static_cast<std::size_t>(std::countr_zero(unwritten_[word]));
      return field < count ? &fields_[field] : nullptr;
    }
    return nullptr;
  }

 private:
  static constexpr std::size_t kWordBits = 64;
  /// Of every place: the function may write values of any type.
  static constexpr std::size_t kAlignment = alignof(std::max_align_t);

  static std::size_t Aligned(std::size_t bytes) {
    return std::max(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  }
  std::span<std::byte> Allocate(std::size_t bytes) {
    std::byte* const data = storage_.Allocate(Aligned(bytes));
    last_end_ = data + Aligned(bytes);
    return {data, bytes};
  }
  void BeginFields() {
    refused_.reset();
    std::fill(unwritten_.begin(), unwritten_.end(), ~std::uint64_t{0});
    const std::size_t rest = fields_.size() % kWordBits;
    if (rest != 0) unwritten_.back() = (std::uint64_t{1} << rest) - 1;
  }
  const FieldSpec& Field(std::size_t field) const {
    if (field < fields_.size()) return fields_[field];
    Refuse("there is no field " + std::to_string(field) + ": " + std::to_string(fields_.size()) +
           " are declared, numbered from 0");
  }
  void CheckRagged(std::size_t field, const char* call) const {
    if (Field(field).ragged()) return;
    RefuseField(field, std::string("has rows of one size: it is written by Fixed, not by ") + call);
  }
  [[noreturn]] void RefuseField(std::size_t field, const std::string& why) const {
    Refuse("field " + std::to_string(field) + " (\"" + fields_[field].name + "\") " + why);
  }
  void NoteWritten(std::size_t field) {
    unwritten_[field / kWordBits] &= ~(std::uint64_t{1} << (field % kWordBits));
  }

  const std::vector<FieldSpec>& fields_;
  std::vector<std::span<std::byte>> places_;
  std::vector<std::uint64_t> unwritten_;  ///< a bit for each field
  std::optional<std::string> refused_;
  LocatedStorage storage_;
  std::byte* last_end_ = nullptr;  ///< of what was allocated last
};

/// What Map does with each row.
struct MapRules {
  std::shared_ptr<const Parser> inner;  ///< null: the function gets the record alone
  std::vector<FieldSpec> fields;        ///< the function's own, then those that it keeps
  std::size_t own_fields = 0;
  std::vector<std::size_t> kept;  ///< numbers of the inner parser's fields
  MapFunction function;
  MapOptions options;
  std::uint64_t first_epoch = 0;
};

/// A thread's memory for the rows of a Map.
class MapRow {
 public:
  /// `rules` outlive it.
  explicit MapRow(const MapRules& rules)
      : rules_(rules), view_(rules.inner.get()), place_(rules.fields) {}

  RowPlace* place() { return &place_; }
  /// Fills the places of a row that has begun. `rows`: the thread's, of which `record` is one; null
  /// without any.
  Status Fill(const RecordSpan& record, const CurrentRows* rows);

 private:
  Status CallFunction(const RecordSpan& record, const Instance* fields, const CurrentRows* rows);

  const MapRules& rules_;
  RowView view_;
  RowPlace place_;
};

}  // namespace ringfeed
