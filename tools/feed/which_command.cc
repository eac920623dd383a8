#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "readers/chain/reader_access.h"
#include "readers/chain/session.h"
#include "readers/engine/row_reader.h"
#include "readers/parsers/parser.h"
#include "ringfeed/batch_origin.h"
#include "ringfeed/decorators.h"
#include "tools/command.h"
#include "tools/feed/feed_plan.h"
#include "tools/feed/feed_trail.h"
#include "tools/option_values.h"
#include "tools/planned_batches.h"
#include "tools/record_numbers.h"
#include "tools/report.h"

namespace ringfeed::tools {
namespace {

constexpr char kWhichHelp[] =
    "Shows which records a batch had, or will have, by the order alone: no record is read.\n\n"
    "The options are those of the chain as `ringfeed feed` takes them; without --batch batches "
    "are\n"
    "single records. Damaged records are listed, too. `ringfeed cat --number` prints the "
    "records.\n\n"
    "  ringfeed which train-*.tfrecord --batch 256 --shuffle global --seed 7 --number 1234\n"
    "  ringfeed which train-*.tfrecord --batch 256 --number 1234 --rank 3 --ranks 8\n"
    "  ringfeed which train-*.tfrecord --parse 'example: tokens=i8[]' --pack 8192 --batch 512 \\\n"
    "    --shuffle global --number 17 --json";

class WhichCommand : public Command {
 public:
  CLI::App* Declare(CLI::App* app) override {
    CLI::App* sub = app->add_subcommand("which", kWhichHelp);
    AddFeedOptions(sub, &plan_);
    sub->add_option("--subset", plan_.open.subset, kSubsetText);
    AddRankOptions(sub, &ranks_);
    CLI::Option* pack = sub->add_option("--pack", planned_.pack,
                                        "units of a packed row: --batch is rows of a step");
    sub->add_option("--tokens", planned_.tokens,
                    "units of a token batch: --batch is token batches of a step")
        ->excludes(pack);
    sub->add_option("--field", planned_.field, kFieldText);
    sub->add_option("--segment", planned_.segment, kSegmentText);
    AddChoice(sub, "--fit", &planned_.fit, {{"best", PackFit::kBest}, {"first", PackFit::kFirst}},
              "how records are put into rows");
    sub->add_option("--cost", planned_.cost, "LINEAR,SQUARE: what a record of u units costs")
        ->delimiter(',')
        ->expected(1, 2);
    sub->add_option("--alike", planned_.alike, "steps that shares are exchanged among");
    sub->add_option("--number", numbers_, "of the batch, from 0, over all passes; several: 3,10-12")
        ->required();
    sub->add_option("--position-in", position_in_,
                    "of a run that began there, by other weights of a mixture");
    sub->add_flag("--json", json_, "the records for machines (docs/JSON.md)");
    return sub;
  }

  int Run() override {
    CompletePlan({}, &plan_);
    const auto numbers = NumbersFromText(numbers_);
    if (!numbers) throw Refuse("--number takes numbers of batches as 3,10-12, not " + numbers_);
    plan_.batching.rank = ChooseRank(ranks_);
    const Reader reader = planned_.wanted() ? PlannedChain() : BuildChain(plan_);
    const std::string position = position_in_.empty() ? "" : ReadPositionFile(position_in_);
    const std::shared_ptr<const RowReader> rows = ReaderAccess::SessionOf(reader)->order().Rows();
    Json batches = Json::array();
    for (const auto& [first, last] : *numbers) {
      for (std::uint64_t number = first;; ++number) {
        const std::vector<BatchRecord> records = reader.Which(number, position);
        if (json_) {
          batches.push_back(BatchJson(number, records, *rows));
        } else {
          Print(number, records, *rows);
        }
        if (number == last) break;
      }
    }
    if (json_) PrintJson("which", {{"batches", batches}});
    (void)FlushOutput();  // main() reports its failure
    return kExitFine;
  }

 private:
  Reader PlannedChain() {
    FeedPlan rows = plan_;
    if (rows.parse.empty()) throw Refuse("--pack and --tokens count units of a field: add --parse");
    const ParserResult parser = ParserFromText(rows.parse);
    if (!parser.status.ok()) throw Error(parser.status);
    rows.batch = 0;
    rows.passes = 1;
    Reader chain = MakePlanned(Parse(BuildChain(rows), parser.parser), planned_, plan_.batch,
                               plan_.seed, plan_.batching.rank);
    return plan_.passes == 1 ? chain : MultiPass(chain, plan_.passes);
  }

  static void Print(std::uint64_t number, const std::vector<BatchRecord>& records,
                    const RowReader& rows) {
    std::printf("batch %llu: %zu records\n", static_cast<unsigned long long>(number),
                records.size());
    for (const BatchRecord& record : records) {
      const RecordUnit unit = rows.UnitOf({record.file, record.record});
      std::printf("  row %u  %s:%llu  number %llu  offset %llu", record.row,
                  rows.table().file(record.file).name.c_str(),
                  static_cast<unsigned long long>(record.record),
                  static_cast<unsigned long long>(record.number),
                  static_cast<unsigned long long>(unit.offset));
      if (record.units > 0) std::printf("  units %u", record.units);
      std::printf("\n");
    }
  }

  static Json BatchJson(std::uint64_t number, const std::vector<BatchRecord>& records,
                        const RowReader& rows) {
    Json list = Json::array();
    for (const BatchRecord& record : records) {
      const RecordUnit unit = rows.UnitOf({record.file, record.record});
      list.push_back({{"row", record.row},
                      {"file", rows.table().file(record.file).name},
                      {"record", record.record},
                      {"number", record.number},
                      {"offset", unit.offset},
                      {"bytes", unit.bytes},
                      {"units", record.units}});
    }
    return {{"batch", number}, {"records", list}};
  }

  FeedPlan plan_;
  RankOptions ranks_;
  PlannedBatches planned_;
  std::string numbers_;
  std::string position_in_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> NewWhichCommand() { return std::make_unique<WhichCommand>(); }

}  // namespace ringfeed::tools
