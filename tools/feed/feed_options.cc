#include "tools/feed/feed_options.h"

#include "tools/option_values.h"

namespace ringfeed::tools {
namespace {

void AddOrderOptions(CLI::App* app, FeedPlan* plan) {
  static const std::map<std::string, ShuffleMode> kModes = {{"none", ShuffleMode::kNone},
                                                            {"window", ShuffleMode::kWindow},
                                                            {"block", ShuffleMode::kBlock},
                                                            {"blocks", ShuffleMode::kBlocks},
                                                            {"global", ShuffleMode::kGlobal}};
  app->add_option("--shuffle", plan->shuffle,
                  "rows of the window or block to shuffle among; none and global have no size")
      ->capture_default_str();
  app->add_option("--shuffle-mode", plan->shuffle_mode,
                  "window: no row moves further than half of it; block: fill, permute, drain; "
                  "blocks: the files' stripes in any order, then a window, where --shuffle gives "
                  "one; global: any row anywhere; default: window where --shuffle is given")
      ->transform(NamedValue(kModes))
      ->type_name("none|window|block|blocks|global");
  app->add_option("--seed", plan->seed, "of the shuffle")->capture_default_str();
  app->add_option("--epoch", plan->open.first_epoch,
                  "number of the first pass: with another one the same seed shuffles otherwise")
      ->capture_default_str();
  app->add_option("--passes", plan->passes, "times over the data; 0: without end")
      ->capture_default_str();
  app->add_option("--cycle", plan->open.cycle, "files open at a time, a stripe of each in turn")
      ->capture_default_str();
  app->add_option("--stripe-bytes", plan->open.stripe_bytes, "size of a stripe")
      ->transform(SizeValue())
      ->type_name("SIZE")
      ->capture_default_str();
}

}  // namespace

void AddFeedOptions(CLI::App* app, FeedPlan* plan) {
  app->add_option("FILE", plan->files, "files, globs in quotes, or one stream (-, a FIFO)")
      ->required();
  app->add_option("--format", plan->open.format, kFormatText);
  app->add_option("--parse", plan->parse, kParseText);
  app->add_option("--batch", plan->batch,
                  "rows of a batch; default: 64 with --parse, else 0: blocks of records");
  app->add_flag("--drop-remainder", plan->batching.drop_remainder,
                "drop the rest of a pass that does not fill a batch");
  AddOrderOptions(app, plan);
  AddDamageOption(app, &plan->open.on_damage);
  app->add_option("--max-damaged", plan->open.max_damaged, "fail once more than this were skipped");
  app->add_option("--max-record-bytes", plan->open.max_record_bytes, "a larger record is a failure")
      ->transform(SizeValue())
      ->type_name("SIZE")
      ->capture_default_str();
}

void AddSpeedOptions(CLI::App* app, FeedPlan* plan, SpeedOptions* speed) {
  static const std::map<std::string, IoPath> kPaths = {{"auto", IoPath::kAuto},
                                                       {"uring", IoPath::kUring},
                                                       {"pread", IoPath::kPread},
                                                       {"mmap", IoPath::kMmap}};
  app->add_option("--threads", plan->open.threads, "0: one per core that may be used, at most 16")
      ->capture_default_str();
  app->add_option("--io", plan->open.io.path,
                  "how bytes are read; auto chooses by file and falls back, a forced path that "
                  "cannot work is an error")
      ->transform(NamedValue(kPaths))
      ->type_name("auto|uring|pread|mmap")
      ->default_str("auto");
  app->add_option("--block-bytes", plan->open.io.block_bytes, "size of one read")
      ->transform(SizeValue())
      ->type_name("SIZE")
      ->capture_default_str();
  app->add_option("--in-flight-bytes", plan->open.io.in_flight_bytes, "reads at a time, per thread")
      ->transform(SizeValue())
      ->type_name("SIZE")
      ->capture_default_str();
  app->add_flag("--direct,!--no-direct", plan->open.io.direct, "O_DIRECT for cold files (default)");
  app->add_option("--slots", plan->batching.slots, "batches in memory at a time; 0: chosen");
  app->add_option("--arena", speed->arena_bytes,
                  "pinned memory, e.g. 512MiB; default: a quarter of the memory limit")
      ->transform(SizeValue())
      ->type_name("SIZE");
}

void CompletePlan(const SpeedOptions& speed, FeedPlan* plan) {
  const bool sized =
      plan->shuffle_mode == ShuffleMode::kWindow || plan->shuffle_mode == ShuffleMode::kBlock;
  if (sized && plan->shuffle == 0) {
    throw Error(
        Status(StatusCode::kInvalidArgument,
               "--shuffle-mode window and block do nothing without a size: --shuffle ROWS"));
  }
  if (plan->batch == 0 && !plan->parse.empty()) plan->batch = kDefaultBatch;
  if (speed.arena_bytes == 0) return;
  plan->open.arena = std::make_shared<PinnedArena>(speed.arena_bytes);
  plan->open.arena_bytes = speed.arena_bytes;  // there is nobody to share it with
}

}  // namespace ringfeed::tools
