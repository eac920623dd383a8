#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/refuse.h"
#include "readers/parsers/current_rows.h"
#include "readers/parsers/located_rows.h"
#include "readers/parsers/parser.h"
#include "readers/parsers/wrappers/map_row.h"
#include "readers/parsers/wrappers/timed_map.h"
#include "readers/parsers/wrappers/wrappers.h"

namespace ringfeed {

namespace {

std::vector<std::size_t> FindKept(const Parser* inner, const std::vector<std::string>& keep) {
  std::vector<std::size_t> kept;
  for (const std::string& name : keep) {
    if (inner == nullptr) Refuse("Map keeps \"" + name + "\" of Parse, which must precede Map");
    const std::vector<FieldSpec>& fields = inner->fields();
    const auto found = std::find_if(fields.begin(), fields.end(),
                                    [&](const FieldSpec& field) { return field.name == name; });
    const auto number = static_cast<std::size_t>(found - fields.begin());
    if (found == fields.end()) {
      std::string names;
      for (const FieldSpec& field : TensorFields(*inner)) names += " \"" + field.name + "\"";
      Refuse("Map keeps \"" + name + "\", which is no parsed field: there are" + names);
    }
    if (inner->role(number) != FieldRole::kTensor) {
      Refuse("Map cannot keep \"" + name + "\", which has levels of LoD: write it by the function");
    }
    kept.push_back(number);
  }
  return kept;
}

class MapParser final : public Parser {
 public:
  MapParser(std::shared_ptr<const Parser> inner, std::vector<FieldSpec> fields,
            MapFunction function, const MapOptions& options, std::uint64_t first_epoch) {
    MapRules rules;
    rules.own_fields = fields.size();
    rules.kept = FindKept(inner.get(), options.keep);
    for (const std::size_t kept : rules.kept) fields.push_back(inner->fields()[kept]);
    for (const FieldSpec& field : fields) {
      if (!AddField(field)) Refuse("Map gives two fields of the name \"" + field.name + "\"");
    }
    rules.inner = std::move(inner);
    rules.fields = std::move(fields);
    rules.function = std::move(function);
    rules.options = options;
    rules.first_epoch = first_epoch;
    rules_ = std::make_shared<const MapRules>(std::move(rules));
    units_alike_ = true;
  }

  std::string name() const override { return "map"; }
  std::string function_name() const override { return rules_->options.name; }
  Status CheckElements(const FileElements& elements) const override {
    return inner() != nullptr ? inner()->CheckElements(elements) : Status();
  }
  Refusal Explain(const RecordSpan& record, const Status& why) const override {
    const bool own = inner() == nullptr || why.message().starts_with(rules_->options.name);
    return own ? Parser::Explain(record, why) : inner()->Explain(record, why);
  }
  std::string HintOfFirst(const RecordSpan& record,
                          std::span<const std::byte> before) const override {
    return inner() != nullptr ? inner()->HintOfFirst(record, before) : std::string();
  }
  void AddTo(PipelineStats* stats) const override {
    if (inner() != nullptr) inner()->AddTo(stats);
    times_->AddTo(stats);
  }
  std::unique_ptr<Scratch> NewScratch() const override {
    return std::make_unique<MapScratch>(rules_, times_);
  }
  /// A user's function may take milliseconds: threads share rows in small pieces.
  std::size_t max_rows_per_write() const override { return two_phase_ ? 1 << 20 : 8; }

  void Locate(std::span<const RecordSpan> rows, FieldLocation* locations, Scratch* scratch,
              std::vector<RowFailure>* failures) const override;
  void Write(std::span<const RecordSpan> rows, const FieldLocation* locations,
             std::span<const ColumnTarget> targets, Scratch* scratch,
             std::vector<RowFailure>* failures) const override;
  std::shared_ptr<const void> TakeStorage(Scratch* scratch) const override {
    return static_cast<MapScratch*>(scratch)->row.place()->TakeStorage();
  }

 private:
  struct MapScratch final : Scratch {
    MapScratch(const std::shared_ptr<const MapRules>& rules, std::shared_ptr<RowTimes> times)
        : row(*rules) {
      if (rules->options.row_timeout_ms > 0) timed.emplace(rules, std::move(times));
    }
    /// Fills the places of a row that has begun.
    Status Fill(const RecordSpan& record) {
      if (timed) return timed->Fill(record, CurrentRows::Get(), row.place());
      return row.Fill(record, CurrentRows::Get());
    }

    MapRow row;
    std::optional<TimedMap> timed;
  };

  const Parser* inner() const { return rules_->inner.get(); }
  static void WriteDirect(std::span<const RecordSpan> rows, std::span<const ColumnTarget> targets,
                          MapScratch* scratch, std::vector<RowFailure>* failures);

  std::shared_ptr<const MapRules> rules_;
  const std::shared_ptr<RowTimes> times_ = std::make_shared<RowTimes>();
};

void MapParser::Locate(std::span<const RecordSpan> rows, FieldLocation* locations, Scratch* scratch,
                       std::vector<RowFailure>* failures) const {
  auto* own = static_cast<MapScratch*>(scratch);
  RowPlace* const place = own->row.place();
  for (std::size_t row = 0; row < rows.size(); ++row) {
    place->BeginRow();
    Status status = own->Fill(rows[row]);
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      const std::span<const std::byte> values = place->place(f);
      const std::size_t units = fields_[f].ragged() ? values.size() / fields_[f].unit_bytes() : 1;
      FieldLocation& at = locations[row * fields_.size() + f];
      if (LocateAt(values.data(), values.size(), units, &at)) continue;
      at = {};
      status =
          Status(StatusCode::kUserError, rules_->options.name + " gave a row of 4 GiB or more");
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
                            MapScratch* scratch, std::vector<RowFailure>* failures) {
  for (std::size_t row = 0; row < rows.size(); ++row) {
    scratch->row.place()->BeginRow(targets, row);
    const Status status = scratch->Fill(rows[row]);
    if (!status.ok()) failures->push_back({row, status});
  }
}

}  // namespace

std::shared_ptr<const Parser> MakeMapParser(std::shared_ptr<const Parser> inner,
                                            std::vector<FieldSpec> fields, MapFunction function,
                                            const MapOptions& options, std::uint64_t first_epoch) {
  return std::make_shared<MapParser>(std::move(inner), std::move(fields), std::move(function),
                                     options, first_epoch);
}

}  // namespace ringfeed
