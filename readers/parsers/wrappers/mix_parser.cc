#include <algorithm>
#include <string>
#include <utility>

#include "base/refuse.h"
#include "readers/parsers/current_rows.h"
#include "readers/parsers/located_rows.h"
#include "readers/parsers/wrappers/wrappers.h"

namespace ringfeed {

namespace {

struct MixScratch final : Parser::Scratch {
  std::vector<std::unique_ptr<Parser::Scratch>> sets;
  std::vector<FieldLocation> locations;  ///< of a set that has one for each row
  std::vector<ColumnTarget> targets;
};

/// Rows next to each other that are of one set go to its parser together.
class MixParser final : public Parser {
 public:
  explicit MixParser(std::vector<MixedParser> sets)
      : sets_(std::move(sets)), row_targets_(sets_.front().parser->fields()) {
    const Parser& first = *sets_.front().parser;
    fields_ = first.fields();
    for (std::size_t f = 0; first.has_lod() && f < fields_.size(); ++f) {
      roles_.push_back(first.role(f));
    }
    gives_records_ = first.gives_records();
    for (const MixedParser& set : sets_) two_phase_ = two_phase_ || set.parser->two_phase();
  }

  std::string name() const override { return "mix"; }
  std::unique_ptr<Scratch> NewScratch() const override {
    auto scratch = std::make_unique<MixScratch>();
    for (const MixedParser& set : sets_) scratch->sets.push_back(set.parser->NewScratch());
    return scratch;
  }
  void Locate(std::span<const RecordSpan> rows, FieldLocation* locations, Scratch* scratch,
              std::vector<RowFailure>* failures) const override;
  std::shared_ptr<const void> TakeStorage(Scratch* scratch) const override;
  void AddTo(PipelineStats* stats) const override {
    for (const MixedParser& set : sets_) set.parser->AddTo(stats);
  }
  std::size_t max_rows_per_write() const override {
    std::size_t rows = Parser::max_rows_per_write();
    for (const MixedParser& set : sets_) rows = std::min(rows, set.parser->max_rows_per_write());
    return rows;
  }
  void Write(std::span<const RecordSpan> rows, const FieldLocation* locations,
             std::span<const ColumnTarget> targets, Scratch* scratch,
             std::vector<RowFailure>* failures) const override;
  void WriteMissing(std::size_t field, std::span<std::byte> row) const override {
    sets_.front().parser->WriteMissing(field, row);
  }

 private:
  std::size_t SetOf(const RecordSpan& row) const;
  /// Calls parse(set, first row, rows) for each run of rows of one set. What fails in it is counted
  /// from the first of `rows` on.
  template <typename Parse>
  void ForEachRun(std::span<const RecordSpan> rows, std::vector<RowFailure>* failures,
                  Parse&& parse) const;

  const std::vector<MixedParser> sets_;
  const RowTargets row_targets_;
};

std::size_t MixParser::SetOf(const RecordSpan& row) const {
  const CurrentRows* const current = CurrentRows::Get();
  if (current == nullptr) Refuse(StatusCode::kInternal, "a row of no set");
  std::size_t file = current->RecordOf(current->IndexOf(row)).file;
  std::size_t set = 0;
  while (file >= sets_[set].files) file -= sets_[set++].files;
  return set;
}

template <typename Parse>
void MixParser::ForEachRun(std::span<const RecordSpan> rows, std::vector<RowFailure>* failures,
                           Parse&& parse) const {
  std::size_t set = rows.empty() ? 0 : SetOf(rows.front());
  for (std::size_t begin = 0; begin < rows.size();) {
    std::size_t end = begin + 1;
    std::size_t next = set;
    while (end < rows.size() && (next = SetOf(rows[end])) == set) ++end;
    const std::size_t already = failures->size();
    parse(set, begin, rows.subspan(begin, end - begin));
    for (std::size_t i = already; i < failures->size(); ++i) (*failures)[i].row += begin;
    begin = end;
    set = next;
  }
}

void MixParser::Locate(std::span<const RecordSpan> rows, FieldLocation* locations, Scratch* scratch,
                       std::vector<RowFailure>* failures) const {
  auto* const own = static_cast<MixScratch*>(scratch);
  const std::size_t stride = fields_.size();
  ForEachRun(rows, failures, [&](std::size_t set, std::size_t first, auto run) {
    const Parser& parser = *sets_[set].parser;
    FieldLocation* const to = locations + first * stride;
    std::fill_n(to, run.size() * stride, FieldLocation());
    if (!parser.two_phase()) return;
    Scratch* const of_set = own->sets[set].get();
    if (parser.row_locations() == stride) return parser.Locate(run, to, of_set, failures);
    own->locations.assign(run.size(), {});
    parser.Locate(run, own->locations.data(), of_set, failures);
    for (std::size_t row = 0; row < run.size(); ++row) to[row * stride] = own->locations[row];
  });
}

std::shared_ptr<const void> MixParser::TakeStorage(Scratch* scratch) const {
  auto storage = std::make_shared<std::vector<std::shared_ptr<const void>>>();
  for (std::size_t set = 0; set < sets_.size(); ++set) {
    auto of_set =
        sets_[set].parser->TakeStorage(static_cast<MixScratch*>(scratch)->sets[set].get());
    if (of_set != nullptr) storage->push_back(std::move(of_set));
  }
  if (storage->empty()) return nullptr;
  return storage;
}

void MixParser::Write(std::span<const RecordSpan> rows, const FieldLocation* locations,
                      std::span<const ColumnTarget> targets, Scratch* scratch,
                      std::vector<RowFailure>* failures) const {
  auto* const own = static_cast<MixScratch*>(scratch);
  const std::size_t stride = fields_.size();
  ForEachRun(rows, failures, [&](std::size_t set, std::size_t first, auto run) {
    const Parser& parser = *sets_[set].parser;
    const FieldLocation* from = nullptr;
    if (parser.two_phase()) {
      from = locations + first * stride;
      if (parser.row_locations() != stride) {
        own->locations.clear();
        for (std::size_t row = 0; row < run.size(); ++row) {
          own->locations.push_back(from[row * stride]);
        }
        from = own->locations.data();
      }
    }
    row_targets_.From(targets, first, &own->targets);
    parser.Write(run, from, own->targets, own->sets[set].get(), failures);
  });
}

std::string TextOf(const Parser& parser) {
  std::string text;
  for (const FieldSpec& field : parser.fields()) {
    text += (text.empty() ? "" : ", ") + field.name + " ";
    text += std::string(DTypeName(field.dtype)) + ShapeToString(field.shape);
  }
  return text;
}

bool AreAlike(const Parser& a, const Parser& b) {
  if (a.has_lod() != b.has_lod() || a.gives_records() != b.gives_records()) return false;
  for (std::size_t f = 0; f < std::min(a.fields().size(), b.fields().size()); ++f) {
    if (a.role(f) != b.role(f)) return false;
  }
  return a.fields() == b.fields();
}

}  // namespace

std::shared_ptr<const Parser> MakeMixParser(std::vector<MixedParser> sets) {
  const Parser& first = *sets.front().parser;
  for (std::size_t set = 1; set < sets.size(); ++set) {
    if (AreAlike(*sets[set].parser, first)) continue;
    Refuse("Mix: set " + std::to_string(set) + " has the fields " + TextOf(*sets[set].parser) +
           ", and set 0 has " + TextOf(first) + ": name the same columns, in the same order");
  }
  return std::make_shared<const MixParser>(std::move(sets));
}

}  // namespace ringfeed
