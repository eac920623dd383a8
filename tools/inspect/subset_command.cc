#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "readers/chain/graph.h"
#include "readers/chain/reader_access.h"
#include "readers/engine/files/subset_file.h"
#include "readers/engine/plan/indexed_source.h"
#include "ringfeed/decorators.h"
#include "ringfeed/sequences.h"
#include "tools/command.h"
#include "tools/given_files.h"
#include "tools/option_values.h"
#include "tools/record_numbers.h"
#include "tools/report.h"

namespace ringfeed::tools {
namespace {

constexpr char kSubsetHelp[] =
    "Writes which records of the files are read (`ringfeed feed --subset`): what is left out is\n"
    "neither planned nor read, and all orders are those of data that have no others.\n\n"
    "--numbers takes numbers of records, one or a range in a line: those of the list of files,\n"
    "from 0, damaged ones counted. --units takes those records whose lengths are in a range, by\n"
    "the kept lengths of a field (`ringfeed index --lengths`), which it makes if they are "
    "missing.\n"
    "With --subset they are looked for among the records of another subset.\n\n"
    "  ringfeed subset 'train-*.tfrecord' --numbers english.txt -o english.rfs\n"
    "  seq 0 2 999 | ringfeed subset 'train-*.tfrecord' --numbers - -o even.rfs\n"
    "  ringfeed subset 'train-*.tfrecord' --parse 'example: tokens=i8[]' --units 32:8192 \\\n"
    "      -o usable.rfs";

/// A and B of "A:B", both of them in; of "A:" all from A on.
struct UnitRange {
  std::uint64_t least = 0;
  std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
};

bool TakeNumber(std::string_view* text, std::uint64_t* number) {
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), *number);
  if (error != std::errc()) return false;
  text->remove_prefix(static_cast<std::size_t>(end - text->data()));
  return true;
}

UnitRange UnitsFromText(std::string_view text) {
  UnitRange range;
  const std::string word(text);
  bool good = text.starts_with(':') || TakeNumber(&text, &range.least);
  good = good && text.starts_with(':');
  if (good) text.remove_prefix(1);
  if (good && !text.empty()) good = TakeNumber(&text, &range.most) && text.empty();
  if (!good || range.least > range.most) {
    throw Refuse("--units takes a range as 32:8192, 32: or :8192, not \"" + word + "\"");
  }
  return range;
}

class SubsetCommand : public Command {
 public:
  CLI::App* Declare(CLI::App* app) override {
    CLI::App* sub = app->add_subcommand("subset", kSubsetHelp);
    sub->add_option("FILE", names_, "files, folders, or globs in quotes")->required();
    sub->add_option("-o,--output", output_, "the subset, FILE.rfs")->required();
    sub->add_option("--format", open_.format, FormatText());
    CLI::Option* numbers = sub->add_option(
        "--numbers", numbers_, "a file of numbers, one or a range A-B in a line; - is stdin");
    CLI::Option* units =
        sub->add_option("--units", units_, "A:B: records of A to B units, both included")
            ->excludes(numbers);
    CLI::Option* parse = sub->add_option("--parse", parse_, ParseText())->needs(units);
    units->needs(parse);
    sub->add_option("--field", field_, kFieldText)->needs(units);
    sub->add_option("--subset", open_.subset, "only records that this one keeps");
    sub->add_flag("--json", json_, "the report for machines (docs/JSON.md)");
    return sub;
  }

  int Run() override {
    if (numbers_.empty() == units_.empty()) throw Refuse("one of --numbers and --units");
    const std::vector<std::string> files = NamedFiles(names_, open_.format);
    RefuseInputAsOutput(FilesRead(files, open_.format), output_);
    open_.on_damage = OnDamage::kSkip;
    if (units_.empty()) {
      if (!open_.subset.empty()) throw Refuse("--numbers says all: no --subset beside it");
      WriteSubset(OpenFiles(names_, open_), ReadNumbers(), output_);
    } else {
      WriteSubset(OpenFiles(names_, open_), NumbersOfUnits(names_), output_);
    }
    const std::shared_ptr<const SubsetFile> subset = OpenSubset(output_);
    if (json_) {
      PrintJson("subset",
                {{"file", output_}, {"kept", subset->count()}, {"records", subset->all()}});
    } else {
      std::printf("%s: %s of %s records\n", output_.c_str(), CountText(subset->count()).c_str(),
                  CountText(subset->all()).c_str());
    }
    return kExitFine;
  }

 private:
  std::vector<std::uint64_t> ReadNumbers() const {
    std::ifstream file(numbers_ == "-" ? "/dev/stdin" : numbers_);
    if (!file)
      throw Error(Status(StatusCode::kNotFound, "it cannot be opened", {numbers_, -1, -1}));
    std::vector<std::uint64_t> numbers;
    std::string line;
    std::uint64_t at = 0;
    while (++at, std::getline(file, line)) {
      std::string_view text = line;
      while (!text.empty() && (text.back() == '\r' || text.back() == ' ')) text.remove_suffix(1);
      if (text.empty()) continue;
      const auto ranges = NumbersFromText(text);
      // A range of all numbers would take all memory before WriteSubset refuses it.
      constexpr std::uint64_t kMostOfRange = std::uint64_t{1} << 32;
      const auto fits = [](const NumbersInRow& range) {
        return range.last - range.first < kMostOfRange;
      };
      if (!ranges || !std::ranges::all_of(*ranges, fits)) {
        throw Refuse(numbers_ + ", line " + std::to_string(at) + ": \"" + line.substr(0, 100) +
                     "\" is no number of a record, and no range as 100-120");
      }
      for (const NumbersInRow& range : *ranges) {
        for (std::uint64_t number = range.first; number <= range.last; ++number) {
          numbers.push_back(number);
        }
      }
    }
    if (file.bad()) throw Error(Status(StatusCode::kIoError, "read failed", {numbers_, -1, -1}));
    return numbers;
  }

  /// By the lengths that batches would be planned from.
  std::vector<std::uint64_t> NumbersOfUnits(const std::vector<std::string>& files) const {
    const UnitRange range = UnitsFromText(units_);
    const ParserResult parser = ParserFromText(parse_);
    if (!parser.status.ok()) throw Error(parser.status);
    TokenBatchOptions tokens;
    tokens.field = field_.empty() ? parser.parser->fields().front().name : field_;
    tokens.tokens = 1;
    tokens.steps.emplace();
    tokens.shares = 1;
    const Reader chain = TokenBatch(Parse(OpenFiles(files, open_), parser.parser), tokens);
    const ExecutionPlan plan = LowerChain(*ReaderAccess::NodeOf(chain));
    const IndexedSource source(plan, {});
    const std::unique_ptr<RowCursor> cursor = source.NewCursor({}, 0);
    std::vector<std::uint64_t> numbers;
    std::vector<RowNumber> rows(4096);
    std::vector<std::uint32_t> units(rows.size());
    std::size_t count = rows.size();
    Check(cursor->Seek(0, 0));
    while (count == rows.size()) {
      Check(cursor->Next(rows, &count));
      Check(source.lengths()->UnitsOf(std::span(rows).first(count), units));
      for (std::size_t i = 0; i < count; ++i) {
        const bool hole = units[i] == LengthTable::kHole;
        if (!hole && units[i] >= range.least && units[i] <= range.most) numbers.push_back(rows[i]);
      }
    }
    return numbers;
  }

  static void Check(const Status& status) {
    if (!status.ok()) throw Error(status);
  }

  std::vector<std::string> names_;
  std::string output_;
  OpenOptions open_;
  std::string numbers_;
  std::string units_;
  std::string parse_;
  std::string field_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> NewSubsetCommand() { return std::make_unique<SubsetCommand>(); }

}  // namespace ringfeed::tools
