#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "ringfeed/devices/timeline.h"
#include "ringfeed/source.h"
#include "ringfeed/status.h"
#include "tools/command.h"
#include "tools/devices/device_options.h"
#include "tools/feed/delivery_ledger.h"
#include "tools/feed/device_feed_run.h"
#include "tools/feed/feed_plan.h"
#include "tools/feed/feed_report.h"
#include "tools/feed/feed_run.h"
#include "tools/feed/feed_trail.h"
#include "tools/feed/speed_settings.h"
#include "tools/given_files.h"
#include "tools/interrupt.h"
#include "tools/option_values.h"
#include "tools/progress_bar.h"
#include "tools/report.h"
#include "tools/result_file.h"
#include "tools/table_rows.h"

namespace ringfeed::tools {
namespace {

constexpr char kFeedHelp[] =
    "Feeds files as a training loop would, and reports where the time went.\n\n"
    "  ringfeed feed train-*.tfrecord\n"
    "  ringfeed feed train-*.tfrecord --parse 'example: image=u1[] label=i8[1]' --batch 64 \\\n"
    "      --shuffle global --seed 7 --passes 2 --verify\n"
    "  ringfeed feed table.rows --format rows:160 --parse 'rows: f4[13] i4[26] i4' --batch 16384\n"
    "  zcat data.tfrecord.gz | ringfeed feed - --format tfrecord --json\n"
    "  ringfeed feed train-*.tfrecord --devices auto --step-ms 5 --trace trace.json\n"
    "  mpirun -n 4 ringfeed feed train-*.tfrecord --batch 256 --shuffle global --seed 7 --json\n"
    "  ringfeed feed train-*.tfrecord --batch 64 --position-out pos.json --journal journal\n\n"
    "Ctrl-C ends it with the report so far and exit status 0; a second one kills it. SIGTERM and\n"
    "SIGHUP do the same with exit status 143 and 129.\n"
    "\f\n"
    "  ringfeed feed online.fifo --format recordio --reopen-until 60\n\n"
    "order_digest is SHA-256 over the SHA-256 of each payload in the order delivered; multiset is "
    "that\nof `ringfeed digest`, summed over all passes. Both are taken from what was delivered. "
    "They cost CPU\ntime: --json computes them, --no-digest leaves them out of timed runs.\n\n"
    "--batch is of all ranks together: each gets its part of every batch. A position is the same "
    "on all\nranks, and any number of ranks may go on from it.\n\n"
    "With --devices each device has a training loop that may run two steps ahead: Next, On, a "
    "step,\nRelease. stall_fraction is the part of the loop's time, from its start to the end of "
    "its last step, in\nwhich the device had no step to do because the next batch was not on it "
    "yet, the first one included;\na loop without --step-ms does nothing but wait. "
    "overlap_fraction is the part of the copies' time in\nwhich the same device computed. "
    "order_digest and multiset are taken of the hashes that were copied\nback from the devices, "
    "in the order of the batches; --verify copies everything back and compares\neach row with "
    "what was read, which takes time. hazards counts what emulated devices object to: wrong\nuse, "
    "not races, for which they would need a simulator's clocks. batches are those that devices "
    "were\ngiven: with --distribution split, parts.\n";

// About how many payload bytes a run will deliver; 0 if it is not known.
std::uint64_t ExpectedBytes(const FeedPlan& plan) {
  std::uint64_t bytes = 0;
  for (const std::string& file : ExpandNames(plan.files)) {
    std::error_code failure;
    const std::uintmax_t size = std::filesystem::file_size(file, failure);
    if (failure) return 0;
    bytes += size;
  }
  return bytes * plan.passes;
}

class FeedCommand : public Command {
 public:
  CLI::App* Declare(CLI::App* app) override {
    CLI::App* sub = app->add_subcommand("feed", kFeedHelp);
    AddFeedOptions(sub, &plan_);
    sub->add_option("--subset", plan_.open.subset, kSubsetText);
    sub->add_option("--cache", plan_.open.cache,
                    "a folder that keeps what is read of objects in stores (s3:, https:)");
    AddSize(sub, "--cache-bytes", &plan_.open.cache_bytes, "the most that it keeps")
        ->capture_default_str();
    AddTunedOption(sub, &plan_, &devices_);
    AddSpeedOptions(sub, &plan_, &speed_);
    AddStreamOptions(sub, &plan_);
    AddRankOptions(sub, &ranks_);
    sub->add_flag("--split-by-files", plan_.batching.split_by_files,
                  "each rank reads files of its own: needs no index, but the order is another one "
                  "for each number of ranks");
    AddTrailOptions(sub, &trail_);
    AddDeviceOptions(sub, &devices_);
    auto* digest = sub->add_flag("--digest", digest_, "compute order_digest and multiset");
    sub->add_flag("--no-digest", no_digest_, "leave them out of --json too")->excludes(digest);
    sub->add_flag(
        "--verify", verify_,
        "then read the files once more, plainly, and check that each pass delivered every "
        "record exactly once; in batches, of 64 if no size is given");
    sub->add_flag("--json", json_, "the report for machines (docs/JSON.md)");
    return sub;
  }

  int Run() override {
    CompletePlan(speed_, &plan_);
    plan_.batching.rank = ChooseRank(ranks_);
    plan_.open.note_records = !trail_.journal.empty();
    // All ranks end after the same batch, even a rank without a row of it, and a single process
    // likewise.
    if (!devices_.wanted()) plan_.batching.empty_batches = true;
    // A block of records may cross the end of a pass; a batch does not.
    const bool tables = !TableFormat(plan_.files, plan_.open).empty();
    const bool in_batches = verify_ || devices_.wanted() || trail_.any() || several_ranks();
    if (in_batches && !plan_.batched()) plan_.batch = kDefaultBatch;
    const bool digests = digest_ || (json_ && !no_digest_ && !tables);
    plan_.hash = digests ? PayloadHash::kSha256 : verify_ ? PayloadHash::kXxh3 : PayloadHash::kNone;
    // To hash a record the host has to read it, so nothing would be read past the host.
    plan_.hash_arrived = devices_.wanted() && devices_.transfer == TransferPlan::kDirect &&
                         plan_.hash != PayloadHash::kNone && FieldsOfWholeRecords(plan_) > 0;
    RefuseToVerifyAPart();
    RefuseToFollowDevices();
    RefuseToWriteOver();
    if (!trail_.position_out.empty()) CheckPositionFile(trail_.position_out);
    FeedReport report;
    report.digests = digests;
    if (devices_.wanted()) {
      FeedDevices(&report);
    } else {
      HostFeedRun run(plan_, verify_, trail_);
      Feed(&run, &report);
    }
    Print(report);
    return ExitStatusOfReport(report);
  }

 private:
  bool several_ranks() const { return plan_.batching.rank.world_size > 1; }

  void RefuseToVerifyAPart() const {
    if (!verify_) return;
    const char* option = nullptr;
    if (several_ranks()) option = "a rank of several";
    if (trail_.max_batches > 0) option = "--max-batches";
    if (!trail_.position_in.empty()) option = "--position-in";
    if (!plan_.open.subset.empty()) option = "--subset";
    if (plan_.batching.drop_remainder) option = "--drop-remainder";
    if (devices_.last_step == LastStep::kDrop) option = "--last-step drop";
    for (const std::string& file : plan_.files) {
      if (!IsStreamName(file)) continue;
      throw Refuse("--verify reads the files once more, and " + file +
                   " is a stream, which can be read once");
    }
    if (option == nullptr) return;
    throw Refuse(std::string("--verify counts every record, ") + option +
                 " leaves some out: choose one (`ringfeed audit` counts over ranks and "
                 "runs, by their --journal)");
  }

  void RefuseToWriteOver() const {
    const std::vector<std::string> files = FilesRead(ExpandNames(plan_.files), plan_.open.format);
    for (const std::string& output : {trail_.position_out, trail_.journal, devices_.trace}) {
      RefuseInputAsOutput(files, output);
    }
    // A position may replace the one before it.
    RefuseInputAsOutput({trail_.position_in}, trail_.journal);
    RefuseOneOutputTwice({trail_.position_out, trail_.journal, devices_.trace});
  }

  void RefuseToFollowDevices() const {
    if (!devices_.wanted() || !trail_.any()) return;
    throw Refuse(
        "--max-batches, --position-in, --position-out and --journal follow batches "
        "as they are read, --devices hands them on: choose one");
  }

  void Feed(FeedRun* run, FeedReport* report) const {
    report->result = RunWithProgress(run);
    if (report->digests) {
      report->order_digest = run->ledger().FinishOrderDigest();
      report->multiset = run->ledger().Multiset();
    }
    if (verify_ && report->result.status.ok()) {
      report->check = CheckDeliveries(plan_, run->ledger(), !report->result.interrupted);
    }
  }

  void FeedDevices(FeedReport* report) const {
    ResultFile trace(devices_.trace);
    DeviceFeedRun run(plan_, devices_, verify_);
    Feed(&run, report);
    report->devices = run.device_report();
    const std::string& difference = report->devices->difference;
    if (report->check) {
      report->check->exact = report->check->exact && difference.empty();
      report->check->done = report->check->done || !difference.empty();
      report->check->what =
          difference.empty() ? report->check->what + "; on its device as it was read" : difference;
    }
    if (!devices_.trace.empty()) trace.Write(run.timeline().ToChromeTrace(run.timeline_origin()));
  }

  FeedResult RunWithProgress(FeedRun* run) const {
    const Interrupt interrupt([run] { run->Stop(); });
    ProgressBar bar("feeding", ExpectedBytes(plan_));
    const bool bytes_known = !plan_.batched() || plan_.hash != PayloadHash::kNone;
    FeedResult result = run->Run([&](const HashSums& so_far) {
      const std::uint64_t bytes =
          bytes_known || !bar.shown() ? so_far.payload_bytes : run->StatsNow().payload_bytes;
      bar.Update(bytes, bytes);
      return true;
    });
    result.interrupted = result.interrupted || interrupt.requested();
    result.exit_status = interrupt.ExitStatus(0);
    return result;
  }

  void Print(const FeedReport& report) const {
    const Status& status = report.result.status;
    // A failed set-up: there is nothing to report.
    if (report.result.batches == 0 && ExitStatusOf(status) == kExitUsage) throw Error(status);
    if (json_) {
      PrintJson("feed", FeedReportJson(plan_, report));
    } else {
      std::fputs(FeedReportText(plan_, report).c_str(), stdout);
    }
    (void)FlushOutput();  // main() reports its failure
    TellFailure(status);
  }

  static int ExitStatusOfReport(const FeedReport& report) {
    int exit_status = ExitStatusOf(report.result.status);
    const bool damaged = report.result.stats.damaged_records > 0;
    // A mistake of the program's keeps its status, even if records were refused because of it.
    if (damaged && exit_status == kExitFine) exit_status = kExitData;
    if (report.check && !report.check->exact) exit_status = kExitData;
    const bool hazards =
        report.devices && report.devices->hazards && !report.devices->hazards->empty();
    if (hazards) exit_status = kExitData;
    return std::max(exit_status, report.result.exit_status);
  }

  FeedPlan plan_;
  SpeedOptions speed_;
  RankOptions ranks_;
  TrailOptions trail_;
  DeviceOptions devices_;
  bool digest_ = false;
  bool no_digest_ = false;
  bool verify_ = false;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> NewFeedCommand() { return std::make_unique<FeedCommand>(); }

}  // namespace ringfeed::tools
