#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "ringfeed/status.h"
#include "tools/audit/delivered_order.h"
#include "tools/audit/shuffle_quality.h"
#include "tools/command.h"
#include "tools/exit_status.h"
#include "tools/feed/feed_options.h"
#include "tools/feed/feed_plan.h"
#include "tools/interrupt.h"
#include "tools/report_json.h"

namespace ringfeed::tools {
namespace {

constexpr char kHelp[] =
    "Reads a pass in an order, and measures how well that is shuffled, against what a perfect "
    "shuffle has on\naverage.\n\n"
    "Rows have their numbers from the list of files: the records of the first, then those of the "
    "second, ….\nWithout a shuffle several files are read in turn all the same (--cycle 1: one "
    "after the other).\n\n"
    "  ringfeed shuffle-quality train-*.tfrecord --shuffle-mode window --shuffle 10000 --seed 7\n"
    "  ringfeed shuffle-quality train-*.tfrecord --shuffle-mode blocks --shuffle 10000 \\\n"
    "      --parse 'example: label=i8' --label label --json";

class ShuffleQualityCommand : public Command {
 public:
  CLI::App* Declare(CLI::App* app) override {
    CLI::App* sub = app->add_subcommand("shuffle-quality", kHelp);
    AddFeedOptions(sub, &plan_);
    for (const char* option : {"--passes", "--drop-remainder"}) {
      sub->remove_option(sub->get_option(option));
    }
    auto* label = sub->add_option("--label", label_,
                                  "a field of --parse, one value per record: its class; default: "
                                  "a part of the row numbers");
    sub->add_option("--classes", classes_, "how many parts; 0: each file is a class")
        ->check(CLI::Range(0, 1'000'000).description(""))
        ->capture_default_str()
        ->excludes(label);
    sub->add_flag("--json", json_, "the report for machines");
    return sub;
  }

  int Run() override {
    CompletePlan(SpeedOptions(), &plan_);
    if (!plan_.batched()) plan_.batch = kDefaultBatch;
    plan_.open.note_records = true;
    DeliveredOrder order(plan_, label_);
    const Interrupt interrupt([&order] { order.Stop(); });
    order.Read();
    const ShuffleQuality quality =
        MeasureShuffle(order.Rows(), order.Labels(classes_), plan_.batch);
    if (json_) {
      PrintJson(ShuffleQualityJson(quality));
    } else {
      std::fputs(ShuffleQualityText(quality).c_str(), stdout);
    }
    return kExitFine;
  }

 private:
  FeedPlan plan_;
  std::string label_;
  std::uint64_t classes_ = 10;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> NewShuffleQualityCommand() {
  return std::make_unique<ShuffleQualityCommand>();
}

}  // namespace ringfeed::tools
