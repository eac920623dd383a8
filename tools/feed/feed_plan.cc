#include "tools/feed/feed_plan.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "readers/parsers/parser.h"
#include "ringfeed/status.h"
#include "tools/command.h"
#include "tools/digests.h"
#include "tools/option_values.h"
#include "tools/table_rows.h"

namespace ringfeed::tools {
namespace {

std::shared_ptr<const Parser> OwnParser(const FeedPlan& plan) {
  ParserResult found = ParserFromText(plan.parse.empty() ? "raw" : plan.parse);
  if (!found.status.ok()) throw Error(found.status);
  return std::move(found.parser);
}

std::shared_ptr<const Parser> PlanParser(const FeedPlan& plan) {
  std::shared_ptr<const Parser> parser = OwnParser(plan);
  // If a batch joins records, only a field with one value a record tells their number.
  const bool countable = !parser->has_lod();
  if ((plan.hash == PayloadHash::kNone || plan.hash_arrived) && countable) return parser;
  return std::make_shared<HashingParser>(std::move(parser), plan.hash);
}

Reader RowsOf(const FeedPlan& plan) {
  if (const std::string table = TableFormat(plan.files, plan.open, plan.tables); !table.empty()) {
    const char* option = nullptr;
    if (!plan.parse.empty()) option = "--parse";
    if (plan.hash != PayloadHash::kNone) option = "--digest or --verify";
    if (option == nullptr) return OpenTableRows(table, plan.files, plan.open, plan.tables);
    throw Refuse(std::string("rows of tables have fields and no records: leave out ") + option);
  }
  Reader records = OpenFiles(plan.files, plan.open);
  return plan.batched() ? Parse(records, PlanParser(plan)) : records;
}

using NamedMode = std::pair<std::string_view, ShuffleMode>;
constexpr std::array<NamedMode, 3> kModesWithoutSize = {{{"global", ShuffleMode::kGlobal},
                                                         {"stripes", ShuffleMode::kStripes},
                                                         {"none", ShuffleMode::kNone}}};

void AddOrderOptions(CLI::App* app, FeedPlan* plan) {
  const auto take_mode = [app, plan](std::string& word) -> std::string {
    const auto mode = std::ranges::find(kModesWithoutSize, word, &NamedMode::first);
    if (mode == kModesWithoutSize.end()) return {};
    if (!app->get_option("--shuffle-mode")->empty()) {
      return "\"" + word + "\" is a mode beside --shuffle-mode: say it once";
    }
    plan->shuffle_mode = mode->second;
    word = "0";
    return {};
  };
  app->add_option("--shuffle", plan->shuffle,
                  "rows of the window or block to shuffle among, or a mode that needs none")
      ->transform(CLI::Validator(take_mode, ""))
      ->type_name("UINT|global|stripes|none")
      ->default_str("0");
  AddChoice(app, "--shuffle-mode", &plan->shuffle_mode,
            {{"none", ShuffleMode::kNone},
             {"window", ShuffleMode::kWindow},
             {"block", ShuffleMode::kBlock},
             {"stripes", ShuffleMode::kStripes},
             {"global", ShuffleMode::kGlobal}},
            "window: no row moves further than half of it; block: fill, permute, drain; stripes: "
            "those of the files in any order, then a window, if --shuffle gives one; global: any "
            "row anywhere; default: window if --shuffle is given");
  app->add_option("--seed", plan->seed, "of the shuffle")->capture_default_str();
  app->add_option("--epoch", plan->open.first_epoch,
                  "number of the first pass: with another one the same seed shuffles otherwise")
      ->capture_default_str();
  app->add_option("--passes", plan->passes, "times over the data; 0: without end")
      ->capture_default_str();
  app->add_option("--cycle", plan->open.cycle, "files open at a time, a stripe of each in turn")
      ->capture_default_str();
  AddSize(app, "--stripe-bytes", &plan->open.stripe_bytes, "size of a stripe")
      ->capture_default_str();
}

constexpr int kMostRanks = 1 << 20;

// What tells one launch of a launcher from its others. For torchrun that is its own choice and may
// repeat, which does no harm; its count of restarts is not the same on all machines.
struct LaunchVariables {
  std::string_view source;
  std::array<const char*, 3> names;
};
constexpr std::array<LaunchVariables, 3> kLaunchVariables = {{
    {"torchrun", {"TORCHELASTIC_RUN_ID", nullptr, nullptr}},
    {"Open MPI", {"PMIX_NAMESPACE", nullptr, nullptr}},
    {"Slurm", {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"}},
}};

}  // namespace

std::size_t FieldsOfWholeRecords(const FeedPlan& plan) {
  const std::shared_ptr<const Parser> parser = OwnParser(plan);
  if (parser->ReadsBytes() || parser->has_lod()) return 0;
  const std::size_t fields = parser->fields().size();
  for (std::size_t field = 0; field < fields; ++field) {
    if (!parser->CopiesBytesOf(field)) return 0;
  }
  return fields;
}

Reader BuildChain(const FeedPlan& plan) {
  Reader chain = RowsOf(plan);
  if (const ShuffleMode mode = plan.mode(); mode != ShuffleMode::kNone) {
    ShuffleOptions shuffle;
    shuffle.mode = mode;
    shuffle.seed = plan.seed;
    if (mode == ShuffleMode::kBlock) shuffle.block = plan.shuffle;
    if (mode == ShuffleMode::kWindow || mode == ShuffleMode::kStripes) {
      shuffle.window = plan.shuffle;
    }
    chain = Shuffle(chain, shuffle);
  }
  if (plan.batched()) {
    BatchOptions batching = plan.batching;
    batching.size = plan.batch;
    chain = Batch(chain, batching);
  }
  return plan.passes == 1 ? chain : MultiPass(chain, plan.passes);
}

void AddFeedOptions(CLI::App* app, FeedPlan* plan) {
  app->add_option("FILE", plan->files, "files, folders, globs in quotes, or one stream (-, a FIFO)")
      ->required();
  app->add_option("--format", plan->open.format, FormatText());
  app->add_option("--parse", plan->parse, ParseText());
  app->add_option("--batch", plan->batch,
                  "rows of a batch; default: 64 with --parse and of tables, else 0: blocks");
  app->add_flag("--drop-remainder", plan->batching.drop_remainder,
                "drop the rest of a pass that does not fill a batch");
  AddOrderOptions(app, plan);
  AddRecordOptions(app, &plan->open);
  AddTableOptions(app, &plan->tables);
  app->add_option("--max-damaged", plan->open.max_damaged, "fail once more than this were skipped");
  app->add_flag("--strict", plan->open.strict, kStrictText);
}

void AddStreamOptions(CLI::App* app, FeedPlan* plan) {
  const auto until_close = [](std::string& word) -> std::string {
    double seconds = 0;
    const char* const end = word.data() + word.size();
    const auto result = std::from_chars(word.data(), end, seconds);
    const bool good = result.ec == std::errc() && result.ptr == end && std::isfinite(seconds);
    if (word != "close" && !good) return "\"" + word + "\" is neither seconds nor close";
    if (word == "close") word = "inf";
    return {};
  };
  app->add_option("--reopen-until", plan->open.reopen_until,
                  "open a stream again after its end, until nothing came for so many seconds; "
                  "close: until it is interrupted")
      ->transform(CLI::Validator(until_close, ""))
      ->type_name("SECONDS|close");
}

void AddSpeedOptions(CLI::App* app, FeedPlan* plan, SpeedOptions* speed) {
  app->add_option("--threads", plan->open.threads, "0: one per core that may be used, at most 16")
      ->capture_default_str();
  AddChoice(app, "--io", &plan->open.io.path,
            {{"auto", IoPath::kAuto},
             {"uring", IoPath::kUring},
             {"pread", IoPath::kPread},
             {"mmap", IoPath::kMmap}},
            "how bytes are read; auto chooses by file and falls back, a forced path that cannot "
            "work is an error");
  AddSize(app, "--block-bytes", &plan->open.io.block_bytes, "size of one read")
      ->capture_default_str();
  AddSize(app, "--in-flight-bytes", &plan->open.io.in_flight_bytes, "reads at a time, per thread")
      ->capture_default_str();
  app->add_flag("--direct,!--no-direct", plan->open.io.direct, "O_DIRECT for cold files (default)");
  app->add_option("--slots", plan->batching.slots, "batches in memory at a time; 0: chosen");
  AddSize(app, "--arena", &speed->arena_bytes,
          "pinned memory, e.g. 512MiB; default: a quarter of the memory limit");
}

namespace {

// "-header" without names: takes the names of the files.
void ReadHeader(FeedPlan* plan) {
  constexpr std::string_view kWord = " -header ";
  const std::size_t at = (plan->parse + ' ').find(kWord);
  if (!plan->parse.starts_with("csv:") || at == std::string::npos) return;
  const CsvColumns columns = ReadCsvColumns(plan->files, plan->open);
  plan->parse.replace(at, kWord.size() - 1,
                      " -header-hex=" + HexText(std::as_bytes(std::span(columns.header))));
  plan->open.format = columns.format;
}

}  // namespace

void CompletePlan(const SpeedOptions& speed, FeedPlan* plan) {
  const bool sized =
      plan->shuffle_mode == ShuffleMode::kWindow || plan->shuffle_mode == ShuffleMode::kBlock;
  if (sized && plan->shuffle == 0) {
    throw Refuse("--shuffle-mode window and block do nothing without a size: --shuffle ROWS");
  }
  const bool rows =
      !plan->parse.empty() || !TableFormat(plan->files, plan->open, plan->tables).empty();
  if (plan->batch == 0 && rows) plan->batch = kDefaultBatch;
  ReadHeader(plan);
  if (speed.arena_bytes == 0) return;
  plan->open.arena = std::make_shared<PinnedArena>(speed.arena_bytes);
  plan->open.arena_bytes = speed.arena_bytes;  // nothing else shares it
}

void AddRankOptions(CLI::App* app, RankOptions* options) {
  app->add_option("--rank", options->rank,
                  "which of the processes this one is, from 0: it gets its part of each batch; "
                  "default: as the launcher says (torchrun, Open MPI, Slurm, Ray, …)")
      ->check(CLI::Range(0, kMostRanks - 1).description(""));
  app->add_option("--ranks", options->ranks,
                  "how many there are; 1: this one alone, whatever launched it")
      ->check(CLI::Range(1, kMostRanks).description(""));
}

Rank ChooseRank(const RankOptions& options, const EnvironmentLookup& lookup) {
  const bool rank_said = options.rank != RankOptions::kNotSaid;
  const bool ranks_said = options.ranks != RankOptions::kNotSaid;
  if (!rank_said && !ranks_said) return FindRank(lookup);
  if (!ranks_said) throw Refuse("--rank says nothing without --ranks: say how many there are");
  if (!rank_said && options.ranks > 1) throw Refuse("--ranks needs --rank: say which one this is");
  Rank rank;
  rank.rank = rank_said ? options.rank : 0;
  rank.world_size = options.ranks;
  rank.source = "options";
  if (rank.rank < rank.world_size) return rank;
  throw Refuse("there is no --rank " + std::to_string(rank.rank) + " of --ranks " +
               std::to_string(rank.world_size) + ": they count from 0");
}

std::string LaunchName(const Rank& rank, const EnvironmentLookup& lookup) {
  if (const char* id = lookup("RINGFEED_RUN_ID"); id != nullptr) return id;
  std::string name;
  for (const LaunchVariables& variables : kLaunchVariables) {
    if (variables.source != rank.source) continue;
    for (const char* variable : variables.names) {
      const char* const value = variable == nullptr ? nullptr : lookup(variable);
      if (value != nullptr) name += (name.empty() ? "" : ".") + std::string(value);
    }
  }
  return name;
}

}  // namespace ringfeed::tools
