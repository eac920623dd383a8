#include <cstring>
#include <vector>

#include "readers/parsers/inferred_fields.h"
#include "readers/parsers/parser.h"
#include "ringfeed/parsers.h"
#include "tests/fuzz/fuzz_target.h"

namespace ringfeed {
namespace {

using Rows = std::vector<ExactCopy>;

/// What each row became: the bytes of its fields, each behind its length, or "!" and why it failed.
using Images = std::vector<std::string>;

// The first byte says how many rows, up to four, and which of them to look at alone; a byte of each
// but the last is its length.
Rows RowsOf(std::span<const std::byte> input, unsigned* control) {
  *control = TakeByte(&input);
  const std::size_t count = 1 + *control % 4;
  Rows rows;
  rows.reserve(count);
  for (std::size_t i = 1; i < count; ++i) {
    const std::size_t wanted = TakeByte(&input);
    const std::size_t length = std::min(wanted, input.size());
    rows.emplace_back(input.first(length));
    input = input.subspan(length);
  }
  rows.emplace_back(input);
  return rows;
}

/// Both phases, as an executor runs them: rows that fail in the first are left out of the second.
/// Every column stands in memory of exactly the size that the first promised, filled with `fill`
/// before. From run to run it keeps room for its own lists only.
class Parsing {
 public:
  Parsing(const Parser& parser, std::byte fill) : parser_(parser), fill_(fill) {}

  /// Valid until the next run.
  const Images& Run(const std::vector<const ExactCopy*>& rows);

 private:
  void Locate();
  void Write();
  void TakeImages();
  std::size_t UnitsOf(std::size_t field) const;

  const Parser& parser_;
  const std::byte fill_;
  std::unique_ptr<Parser::Scratch> scratch_;
  std::shared_ptr<const void> storage_;
  Images images_;
  std::vector<RecordSpan> passed_;
  std::vector<RecordSpan> rows_;      // those that the second phase gets
  std::vector<std::size_t> numbers_;  // of rows_, among all rows
  std::vector<FieldLocation> all_;
  std::vector<FieldLocation> locations_;  // of rows_
  std::vector<std::unique_ptr<std::byte[]>> columns_;
  std::vector<std::int64_t> offsets_;  // of all fields, one behind the other
  std::vector<ColumnTarget> targets_;
  std::vector<RowFailure> failures_;
};

const Images& Parsing::Run(const std::vector<const ExactCopy*>& rows) {
  scratch_ = parser_.NewScratch();
  images_.resize(rows.size());
  for (std::string& image : images_) image.clear();
  rows_.clear();
  numbers_.clear();
  for (std::size_t row = 0; row < rows.size(); ++row) {
    rows_.push_back({rows[row]->bytes().data(), rows[row]->bytes().size()});
    numbers_.push_back(row);
  }
  if (parser_.two_phase()) Locate();
  Write();
  storage_.reset();
  return images_;
}

void Parsing::Locate() {
  const std::size_t fields = parser_.fields().size();
  all_.assign(rows_.size() * fields, {});
  failures_.clear();
  parser_.Locate(rows_, all_.data(), scratch_.get(), &failures_);
  storage_ = parser_.TakeStorage(scratch_.get());
  for (const RowFailure& failure : failures_) {
    FuzzExpect(failure.row < rows_.size() && !failure.status.ok(), "a failure has a row and why");
    images_[failure.row] = "!" + failure.status.ToString();
  }
  passed_.swap(rows_);
  rows_.clear();
  numbers_.clear();
  locations_.clear();
  for (std::size_t row = 0; row < passed_.size(); ++row) {
    if (!images_[row].empty()) continue;
    rows_.push_back(passed_[row]);
    numbers_.push_back(row);
    const auto first = all_.begin() + static_cast<std::ptrdiff_t>(row * fields);
    locations_.insert(locations_.end(), first, first + static_cast<std::ptrdiff_t>(fields));
  }
}

std::size_t Parsing::UnitsOf(std::size_t field) const {
  const std::size_t fields = parser_.fields().size();
  if (!parser_.fields()[field].ragged()) return rows_.size();
  std::size_t units = 0;
  for (std::size_t r = 0; r < rows_.size(); ++r) units += locations_[r * fields + field].units;
  return units;
}

void Parsing::Write() {
  const std::vector<FieldSpec>& fields = parser_.fields();
  offsets_.assign(fields.size() * (rows_.size() + 1), 0);
  columns_.clear();
  targets_.clear();
  failures_.clear();
  for (std::size_t f = 0; f < fields.size(); ++f) {
    const std::size_t bytes = UnitsOf(f) * fields[f].unit_bytes();
    FuzzExpect(bytes < std::size_t{1} << 24, "small records have small rows");
    columns_.emplace_back(new std::byte[bytes]);
    std::fill_n(columns_.back().get(), bytes, fill_);
    std::int64_t* const offsets = offsets_.data() + f * (rows_.size() + 1);
    targets_.push_back({columns_.back().get(), fields[f].ragged() ? offsets : nullptr});
  }
  parser_.Write(rows_, parser_.two_phase() ? locations_.data() : nullptr, targets_, scratch_.get(),
                &failures_);
  TakeImages();
  for (const RowFailure& failure : failures_) {
    FuzzExpect(failure.row < rows_.size() && !failure.status.ok(), "a failure has a row and why");
    std::string& image = images_[numbers_[failure.row]];
    const bool zeros = image.find_first_not_of('\0') == std::string::npos;
    FuzzExpect(parser_.two_phase() || zeros, "the place of a row that failed holds zeros");
    image = "!" + failure.status.ToString();
  }
}

void Parsing::TakeImages() {
  const std::vector<FieldSpec>& fields = parser_.fields();
  for (std::size_t f = 0; f < fields.size(); ++f) {
    const std::size_t unit = fields[f].unit_bytes();
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      std::size_t begin = r;
      std::size_t units = 1;
      std::string& image = images_[numbers_[r]];
      if (fields[f].ragged()) {
        units = locations_[r * fields.size() + f].units;
        const std::int64_t* const offsets = targets_[f].offsets;
        begin = static_cast<std::size_t>(offsets[r]);
        FuzzExpect(offsets[r + 1] == offsets[r] + static_cast<std::int64_t>(units),
                   "what is written is what was located");
        image += std::to_string(units) + ":";
        // Offsets are those of the batch: they do depend on the rows before.
        if (parser_.role(f) == FieldRole::kLodLevel) continue;
      }
      image.append(reinterpret_cast<const char*>(columns_[f].get()) + begin * unit, units * unit);
    }
  }
}

/// All rows together, the first once more at the end; and one of them alone, without a thread's
/// memory of others and on another ground.
class ParserCheck {
 public:
  explicit ParserCheck(std::shared_ptr<const Parser> parser) : parser_(std::move(parser)) {}

  void Run(std::span<const std::byte> input) {
    unsigned control = 0;
    const Rows rows = RowsOf(input, &control);
    std::vector<const ExactCopy*> all;
    for (const ExactCopy& row : rows) all.push_back(&row);
    all.push_back(&rows.front());
    const Images& images = together_.Run(all);
    FuzzExpect(images.front() == images.back(), "a row that comes again becomes the same again");
    const std::size_t row = control / 4 % rows.size();
    const std::string& image = alone_.Run({&rows[row]})[0];
    FuzzExpect(image == images[row], "what a row becomes does not depend on other rows", [&] {
      return "row " + std::to_string(row) + " alone:\n" + image + "\nand among others:\n" +
             images[row];
    });
  }

 private:
  const std::shared_ptr<const Parser> parser_;
  Parsing together_{*parser_, std::byte{0xa5}};
  Parsing alone_{*parser_, std::byte{0x5a}};
};

}  // namespace

FuzzTarget ParseTarget(const char* parser) {
  const ParserResult made = ParserFromText(parser);
  FuzzExpect(made.status.ok(), "there is such a parser", [&] { return made.status.ToString(); });
  const auto check = std::make_shared<ParserCheck>(made.parser);
  return [check](std::span<const std::byte> input) { check->Run(input); };
}

FuzzTarget InferTarget(const char* kind) {
  return [kind = std::string_view(kind)](std::span<const std::byte> input) {
    unsigned control = 0;
    const Rows rows = RowsOf(input, &control);
    std::vector<RecordSpan> records;
    for (const ExactCopy& row : rows) records.push_back({row.bytes().data(), row.bytes().size()});
    try {
      if (kind == "example") {
        if (const auto fields = InferExampleFields(records); !fields.empty()) ExampleParser(fields);
      } else if (kind == "jsonl") {
        if (const auto fields = InferJsonFields(records); !fields.empty()) JsonLinesParser(fields);
      } else if (kind == "tar") {
        if (const auto fields = InferTarFields(records); !fields.empty()) TarParser(fields);
      } else {
        (void)IsCsvHeader(records, CsvOptions());
      }
    } catch (const Error& error) {
      FuzzFailure("the fields that records show make a parser", error.what());
    }
  };
}

}  // namespace ringfeed
