#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <utility>

#include "base/refuse.h"
#include "base/user_call.h"
#include "readers/parsers/located_rows.h"
#include "readers/parsers/parser.h"
#include "readers/parsers/worker_stop.h"
#include "readers/parsers/wrappers/wrappers.h"

namespace ringfeed {

namespace {

using Chunk = std::vector<std::byte>;

/// Parses single records for a Map function and shows the fields as tensors.
class RowView {
 public:
  explicit RowView(const Parser* parser) : parser_(parser) {
    if (parser_ == nullptr) return;
    scratch_ = parser_->NewScratch();
    locations_.resize(parser_->fields().size());
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
  std::vector<Chunk> values_;
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
        fixed_(fields.size()),
        ragged_(fields.size()),
        unwritten_((fields.size() + kWordBits - 1) / kWordBits) {}

  std::span<std::byte> Fixed(std::size_t field) override {
    if (Field(field).ragged()) {
      RefuseField(field, "has rows of any length: it is written by Ragged, not by Fixed");
    }
    NoteWritten(field);
    return {fixed_[field], fields_[field].unit_bytes()};
  }
  void Ragged(std::size_t field, std::span<const std::byte> values) override {
    if (!Field(field).ragged()) {
      RefuseField(field, "has rows of one size: it is written by Fixed, not by Ragged");
    }
    if (values.size() % fields_[field].unit_bytes() != 0) {
      RefuseField(field, "takes a multiple of " + std::to_string(fields_[field].unit_bytes()) +
                             " bytes, not " + std::to_string(values.size()));
    }
    NoteWritten(field);
    ragged_[field].assign(values.begin(), values.end());
  }

  void SetFixed(std::size_t field, std::byte* at) { fixed_[field] = at; }
  const Chunk& ragged(std::size_t field) const { return ragged_[field]; }
  /// Begins a row: nothing of it is written yet.
  void BeginRow() {
    for (Chunk& chunk : ragged_) chunk.clear();
    std::fill(unwritten_.begin(), unwritten_.end(), ~std::uint64_t{0});
    const std::size_t rest = fields_.size() % kWordBits;
    if (rest != 0) unwritten_.back() = (std::uint64_t{1} << rest) - 1;
  }
  /// The first field that is not written yet; null if all are.
  const FieldSpec* Unwritten() const {
    for (std::size_t word = 0; word < unwritten_.size(); ++word) {
      if (unwritten_[word] == 0) continue;
      return &fields_[word * kWordBits +
                      static_cast<std::size_t>(std::countr_zero(unwritten_[word]))];
    }
    return nullptr;
  }

 private:
  static constexpr std::size_t kWordBits = 64;

  const FieldSpec& Field(std::size_t field) const {
    if (field < fields_.size()) return fields_[field];
    Refuse("there is no field " + std::to_string(field) + ": " + std::to_string(fields_.size()) +
           " are declared, numbered from 0");
  }
  [[noreturn]] void RefuseField(std::size_t field, const std::string& why) const {
    Refuse("field " + std::to_string(field) + " (\"" + fields_[field].name + "\") " + why);
  }
  void NoteWritten(std::size_t field) {
    unwritten_[field / kWordBits] &= ~(std::uint64_t{1} << (field % kWordBits));
  }

  const std::vector<FieldSpec>& fields_;
  std::vector<std::byte*> fixed_;
  std::vector<Chunk> ragged_;
  std::vector<std::uint64_t> unwritten_;  ///< a bit for each field
};

class MapParser final : public Parser {
 public:
  MapParser(std::shared_ptr<const Parser> inner, std::vector<FieldSpec> fields,
            MapFunction function, std::string function_name)
      : inner_(std::move(inner)),
        function_(std::move(function)),
        function_name_(std::move(function_name)) {
    fields_ = std::move(fields);
    two_phase_ = std::any_of(fields_.begin(), fields_.end(),
                             [](const FieldSpec& field) { return field.ragged(); });
    units_alike_ = true;
  }

  std::string name() const override { return "map"; }
  std::string function_name() const override { return function_name_; }
  Status CheckElements(const FileElements& elements) const override {
    return inner_ != nullptr ? inner_->CheckElements(elements) : Status();
  }
  Refusal Explain(const RecordSpan& record, const Status& why) const override {
    return inner_ != nullptr ? inner_->Explain(record, why) : Parser::Explain(record, why);
  }
  std::string HintOfFirst(const RecordSpan& record,
                          std::span<const std::byte> before) const override {
    return inner_ != nullptr ? inner_->HintOfFirst(record, before) : std::string();
  }
  std::unique_ptr<Scratch> NewScratch() const override {
    return std::make_unique<MapScratch>(inner_.get(), fields_);
  }
  /// A user's function may take milliseconds: threads share rows in small pieces.
  std::size_t max_rows_per_write() const override { return two_phase_ ? 1 << 20 : 8; }

  void Locate(std::span<const RecordSpan> rows, FieldLocation* locations, Scratch* scratch,
              std::vector<RowFailure>* failures) const override;
  void Write(std::span<const RecordSpan> rows, const FieldLocation* locations,
             std::span<const ColumnTarget> targets, Scratch* scratch,
             std::vector<RowFailure>* failures) const override;
  std::shared_ptr<const void> TakeStorage(Scratch* scratch) const override {
    return std::move(static_cast<MapScratch*>(scratch)->results);
  }

 private:
  /// The results of the first phase, one chunk per row and field: chunks never move.
  using Results = std::vector<Chunk>;
  struct MapScratch final : Scratch {
    MapScratch(const Parser* inner, const std::vector<FieldSpec>& fields)
        : view(inner), place(fields) {}
    RowView view;
    RowPlace place;
    std::shared_ptr<Results> results;
  };

  Status Call(const RecordSpan& record, MapScratch* scratch) const;
  void WriteDirect(std::span<const RecordSpan> rows, std::span<const ColumnTarget> targets,
                   MapScratch* scratch, std::vector<RowFailure>* failures) const;

  const std::shared_ptr<const Parser> inner_;
  const MapFunction function_;
  const std::string function_name_;
};

Status MapParser::Call(const RecordSpan& record, MapScratch* scratch) const {
  // A function may take long: Close waits for only one call.
  if (WorkerStop::Requested()) return WorkerStop::Why();
  Status status;
  const Instance* fields = scratch->view.Parse(record, &status);
  if (!status.ok()) return status;
  scratch->place.BeginRow();
  status = CallUser(function_name_, [&] { function_({record, fields}, scratch->place); });
  if (!status.ok()) return status;
  // Otherwise the batch would show old bytes of its memory.
  const FieldSpec* const unwritten = scratch->place.Unwritten();
  if (unwritten == nullptr) return Status();
  return Status(StatusCode::kUserError, "field \"" + unwritten->name + "\" was not written by " +
                                            function_name_ +
                                            ": it must write every declared field of every row" +
                                            (unwritten->ragged() ? " (an empty one, too)" : ""));
}

void MapParser::Locate(std::span<const RecordSpan> rows, FieldLocation* locations, Scratch* scratch,
                       std::vector<RowFailure>* failures) const {
  auto* own = static_cast<MapScratch*>(scratch);
  // One block's rows may come in several calls between two TakeStorage: each call keeps the earlier
  // results. Moving the vector does not move a chunk's heap memory.
  if (own->results == nullptr) own->results = std::make_shared<Results>();
  Results& results = *own->results;
  const std::size_t before = results.size();
  results.resize(before + rows.size() * fields_.size());
  for (std::size_t row = 0; row < rows.size(); ++row) {
    Chunk* const chunks = results.data() + before + row * fields_.size();
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      if (fields_[f].ragged()) continue;
      chunks[f].resize(fields_[f].unit_bytes());
      own->place.SetFixed(f, chunks[f].data());
    }
    Status status = Call(rows[row], own);
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      if (fields_[f].ragged()) chunks[f] = own->place.ragged(f);
      const std::size_t bytes = chunks[f].size();
      FieldLocation& at = locations[row * fields_.size() + f];
      if (LocateAt(chunks[f].data(), bytes, bytes / fields_[f].unit_bytes(), &at)) continue;
      at = {};
      status = Status(StatusCode::kUserError, function_name_ + " gave a row of 4 GiB or more");
    }
    if (!status.ok()) failures->push_back({row, std::move(status)});
  }
}

void MapParser::Write(std::span<const RecordSpan> rows, const FieldLocation* locations,
                      std::span<const ColumnTarget> targets, Scratch* scratch,
                      std::vector<RowFailure>* failures) const {
  if (locations == nullptr) {
    WriteDirect(rows, targets, static_cast<MapScratch*>(scratch), failures);
    return;
  }
  WriteLocated(fields_, rows.size(), locations, targets);
}

void MapParser::WriteDirect(std::span<const RecordSpan> rows, std::span<const ColumnTarget> targets,
                            MapScratch* scratch, std::vector<RowFailure>* failures) const {
  for (std::size_t row = 0; row < rows.size(); ++row) {
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      scratch->place.SetFixed(f, targets[f].data + row * fields_[f].unit_bytes());
    }
    const Status status = Call(rows[row], scratch);
    if (!status.ok()) failures->push_back({row, status});
  }
}

}  // namespace

std::shared_ptr<const Parser> MakeMapParser(std::shared_ptr<const Parser> inner,
                                            std::vector<FieldSpec> fields, MapFunction function,
                                            std::string function_name) {
  return std::make_shared<MapParser>(std::move(inner), std::move(fields), std::move(function),
                                     std::move(function_name));
}

}  // namespace ringfeed
