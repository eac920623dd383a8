#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "ringfeed/reader.h"
#include "ringfeed/stats.h"
#include "ringfeed/status.h"
#include "tools/audit/shuffle_quality.h"
#include "tools/command.h"
#include "tools/feed/feed_plan.h"
#include "tools/interrupt.h"
#include "tools/report.h"

namespace ringfeed::tools {
namespace {

/// Reads a pass of a chain and keeps the order of its rows.
class DeliveredOrder {
 public:
  /// `plan` has batches, and its deliveries have their origins (OpenOptions::note_records).
  /// `label`: a fixed field whose value is a row's class; "": none. Throws Error.
  DeliveredOrder(const FeedPlan& plan, const std::string& label)
      : reader_(BuildChain(plan)), labelled_(!label.empty()) {
    if (!labelled_) return;
    const std::vector<FieldSpec> fields = reader_.fields();
    const auto field = std::find_if(fields.begin(), fields.end(),
                                    [&](const FieldSpec& spec) { return spec.name == label; });
    if (field == fields.end()) throw Refuse("--parse gives no field " + label + " to be the label");
    label_field_ = static_cast<std::size_t>(field - fields.begin());
  }

  /// Call once. Throws Error if reading fails.
  void Read() {
    Instance batch;
    BatchOrigin origin;
    ReadResult result;
    while ((result = reader_.TryReadNext(&batch, {.origin = &origin})) == ReadResult::kRecord) {
      Add(batch, origin);
    }
    batch.clear();
    const Status status = reader_.status();
    if (result == ReadResult::kFailed && status.code() != StatusCode::kCancelled) {
      throw Error(status);
    }
  }
  /// What was skipped.
  PipelineStats Stats() const { return reader_.Stats(); }
  /// Ends Read soon, from any thread.
  void Stop() { reader_.Close(); }

  /// Numbers of rows; each file's numbers follow those of the file before.
  std::vector<std::uint64_t> Rows() const {
    const std::vector<std::uint64_t> first = FirstRows();
    std::vector<std::uint64_t> rows;
    for (const RecordRange& range : ranges_) {
      for (std::uint64_t i = 0; i < range.count; ++i) {
        rows.push_back(first[range.file] + range.first + i);
      }
    }
    return rows;
  }
  /// The class of each: of the field, else one of `classes` equal parts of the numbers; 0: its
  /// file.
  std::vector<std::uint32_t> Labels(std::uint64_t classes) const {
    if (labelled_) return labels_;
    std::vector<std::uint32_t> labels;
    if (classes == 0) {
      for (const RecordRange& range : ranges_) labels.insert(labels.end(), range.count, range.file);
      return labels;
    }
    const std::vector<std::uint64_t> rows = Rows();
    if (rows.empty()) return labels;
    const std::uint64_t end = *std::max_element(rows.begin(), rows.end()) + 1;
    for (const std::uint64_t row : rows) {
      const double part = static_cast<double>(row) / static_cast<double>(end);
      labels.push_back(static_cast<std::uint32_t>(part * static_cast<double>(classes)));
    }
    return labels;
  }

 private:
  void Add(const Instance& batch, const BatchOrigin& origin) {
    std::uint64_t rows = 0;
    for (const RecordRange& range : origin.records) {
      rows += range.count;
      const bool goes_on = !ranges_.empty() && ranges_.back().file == range.file &&
                           ranges_.back().first + ranges_.back().count == range.first;
      if (goes_on) {
        ranges_.back().count += range.count;
      } else {
        ranges_.push_back(range);
      }
    }
    if (!labelled_ || rows == 0) return;
    const Tensor& field = batch[label_field_];
    if (!field.lod.empty() || field.shape.empty() ||
        field.shape[0] != static_cast<std::int64_t>(rows)) {
      throw Refuse("a label is one value of fixed size per record");
    }
    const std::size_t bytes = field.bytes / rows;
    for (std::uint64_t i = 0; i < rows; ++i) {
      const auto* const value = reinterpret_cast<const char*>(field.data + i * bytes);
      const auto next = static_cast<std::uint32_t>(label_ids_.size());
      labels_.push_back(label_ids_.emplace(std::string(value, bytes), next).first->second);
    }
  }
  // Judged by the deliveries: a file counts as ended after its last delivered record.
  std::vector<std::uint64_t> FirstRows() const {
    std::vector<std::uint64_t> ends;
    for (const RecordRange& range : ranges_) {
      if (range.file >= ends.size()) ends.resize(range.file + std::size_t{1});
      ends[range.file] = std::max(ends[range.file], range.first + range.count);
    }
    std::exclusive_scan(ends.begin(), ends.end(), ends.begin(), std::uint64_t{0});
    return ends;
  }

  Reader reader_;
  std::size_t label_field_ = 0;
  bool labelled_ = false;
  std::vector<RecordRange> ranges_;
  std::vector<std::uint32_t> labels_;               // with a field
  std::map<std::string, std::uint32_t> label_ids_;  // by the bytes of their value
};

constexpr char kShuffleQualityHelp[] =
    "Reads a pass in an order, and measures how well that is shuffled, against what a perfect "
    "shuffle has on\naverage. Ctrl-C ends it with what came until then; if damage was skipped, the "
    "exit status is 1.\n\n"
    "Rows have their numbers from the list of files: the records of the first, then those of the "
    "second, ….\nWithout a shuffle several files are read in turn all the same (--cycle 1: one "
    "after the other).\n\n"
    "  ringfeed shuffle-quality train-*.tfrecord --shuffle-mode window --shuffle 10000 --seed 7\n"
    "  ringfeed shuffle-quality train-*.tfrecord --shuffle-mode stripes --shuffle 10000 \\\n"
    "      --parse 'example: label=i8' --label label --json";

class ShuffleQualityCommand : public Command {
 public:
  CLI::App* Declare(CLI::App* app) override {
    CLI::App* sub = app->add_subcommand("shuffle-quality", kShuffleQualityHelp);
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
    sub->add_flag("--json", json_, "the report for machines (docs/JSON.md)");
    return sub;
  }

  int Run() override {
    CompletePlan(SpeedOptions(), &plan_);
    if (!plan_.batched()) plan_.batch = kDefaultBatch;
    plan_.open.note_records = true;
    DeliveredOrder order(plan_, label_);
    const Interrupt interrupt([&order] { order.Stop(); });
    order.Read();
    Print(MeasureShuffle(order.Rows(), order.Labels(classes_), plan_.batch), order.Stats(),
          interrupt.requested());
    return interrupt.ExitStatus(order.Stats().damaged_records > 0 ? kExitData : kExitFine);
  }

 private:
  void Print(const ShuffleQuality& quality, const PipelineStats& stats, bool interrupted) const {
    if (json_) {
      Json report = ShuffleQualityJson(quality);
      report["interrupted"] = interrupted;
      report["damaged_records"] = stats.damaged_records;
      report["damaged"] = DamageJson(stats.damage);
      PrintJson("shuffle-quality", report);
    } else {
      std::fputs(ShuffleQualityText(quality).c_str(), stdout);
    }
    (void)FlushOutput();  // main() reports its failure
    TellSkipped(stats.damage, Status());
    if (interrupted) {
      std::fprintf(stderr, "ringfeed: interrupted: this is the order of what came until then\n");
    }
  }

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
