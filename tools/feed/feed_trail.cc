#include "tools/feed/feed_trail.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <limits>
#include <span>
#include <utility>

#include "base/small_text.h"
#include "base/strict_json.h"
#include "readers/formats/writing/output_file.h"
#include "readers/order/position.h"
#include "ringfeed/status.h"
#include "tools/command.h"
#include "tools/option_values.h"
#include "tools/report.h"

namespace ringfeed::tools {
namespace {

constexpr std::size_t kMostBytes = 1 << 20;

}  // namespace

void AddTrailOptions(CLI::App* app, TrailOptions* options) {
  app->add_option("--max-batches", options->max_batches,
                  "end after so many batches (all ranks alike); 0: at the end of the data")
      ->capture_default_str();
  app->add_option("--position-in", options->position_in,
                  "go on after the position in this file, saved by any number of ranks")
      ->type_name("FILE");
  CLI::Option* const out =
      app->add_option("--position-out", options->position_out,
                      "save the position after what was delivered at the end, at once or not at "
                      "all, in a regular file; a link is followed")
          ->type_name("FILE");
  app->add_option("--position-every", options->position_every,
                  "and after every batch whose number from 1 is a multiple of this")
      ->check(AboveZero())
      ->needs(out);
  app->add_option("--journal", options->journal,
                  "append which records each batch had, for `ringfeed audit`; a file for each "
                  "rank, for all of its runs")
      ->type_name("FILE");
}

PositionSummary SummaryOf(const std::string& position) {
  try {
    const Json json = ParseStrictJson(position);
    PositionSummary summary;
    summary.batch = CountAt(json, "batch");
    Json data = json.value("data", Json::object());
    if (!data.is_object()) data = Json{{"text", data}};
    summary.records = CountAtOr(data, "records", 0);
    data.erase("records");
    summary.data = data.dump();
    return summary;
  } catch (const std::exception& failure) {
    throw Refuse(std::string("this is no position: ") + failure.what());
  }
}

std::string ReadPositionFile(const std::string& path) {
  std::string text = ReadSmallText(path, "position", kMostBytes);
  if (text.size() > kMostBytes) throw Refuse(path + " holds no position: it is longer than 1 MiB");
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text;
}

void CheckPositionFile(const std::string& path) {
  std::string target;
  const Status status = FindOutputTarget(path, &target);
  if (!status.ok()) throw Error(status);
}

void WritePositionFile(const std::string& path, const std::string& position) {
  OutputFile file(path);
  file.Sync();
  Status status = file.Open();
  const std::string line = position + "\n";
  if (status.ok()) status = file.Append(std::as_bytes(std::span(line)));
  if (status.ok()) status = file.Commit();
  if (!status.ok()) {
    throw OutputError(Status(status.code(), "the position " + path + ": " + status.message()));
  }
}

FeedTrail::FeedTrail(const TrailOptions& options, JournalStart start, Position position)
    : options_(options), position_(std::move(position)) {
  position_text_ = position_();
  const PositionSummary summary = SummaryOf(position_text_);
  next_ = summary.batch;
  // A sum that overflows would start again at 0, and end the run at once.
  const std::uint64_t most = std::numeric_limits<std::uint64_t>::max() - next_;
  if (options_.max_batches > 0) limit_ = next_ + std::min(options_.max_batches, most);
  if (options_.journal.empty()) return;
  start.batch = summary.batch;
  start.data = summary.data;
  if (!start.subset) start.total_records = std::max(start.total_records, summary.records);
  journal_.emplace(options_.journal, start);
}

void FeedTrail::Deliver(const BatchOrigin& origin) {
  if (journal_) {
    if (const Status status = journal_->Append(origin); !status.ok()) throw OutputError(status);
  }
  if (IsCutShort(origin)) return;  // the failure follows, and must be reached
  const std::uint64_t before = next_;
  next_ = origin.batch + 1;
  const std::uint64_t every = options_.position_every;
  if (every == 0 || next_ / every == before / every) return;
  position_text_ = position_();
  Save();
}

void FeedTrail::Finish(bool at_end, std::uint64_t damaged) {
  position_text_ = position_();
  if (journal_ && damaged > 0) {
    if (const Status status = journal_->Damage(damaged); !status.ok()) throw OutputError(status);
  }
  if (journal_ && at_end) {
    const Status status = journal_->End(SummaryOf(position_text_).batch);
    if (!status.ok()) throw OutputError(status);
  }
  Save();
}

void FeedTrail::Save() {
  if (!options_.position_out.empty()) WritePositionFile(options_.position_out, position_text_);
}

}  // namespace ringfeed::tools
