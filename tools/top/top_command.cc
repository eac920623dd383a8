#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "metrics/address.h"
#include "metrics/job_notes.h"
#include "metrics/label_text.h"
#include "tools/command.h"
#include "tools/report.h"
#include "tools/top/job_metrics.h"

namespace ringfeed::tools {
namespace {

constexpr char kTopHelp[] =
    "What running jobs do: rates, where threads work and wait, batches ahead of devices, stalls. "
    "It shows\njobs that were started with RINGFEED_METRICS (docs/METRICS.md).\n\n"
    "  RINGFEED_METRICS=unix:/tmp/job-%p python train.py &\n"
    "  ringfeed top                       which jobs are there?\n"
    "  ringfeed top 4711                  what does that one do? until Ctrl-C\n"
    "  ringfeed top 4711 --once --json    the same once, for machines";

constexpr double kLeastInterval = 0.2;
constexpr double kMostInterval = 3600;
// A job writes its file every 5 s.
constexpr std::chrono::seconds kFilePatience{12};
constexpr std::size_t kMostCommand = 60;

constexpr std::size_t kMostName = 100;

std::string Shown(const std::string& name) { return LabelText(name, kMostName); }

// Of a number, or null.
std::string NumberText(const Json& number, int decimals) {
  return number.is_null() ? "-" : FixedText(number, decimals);
}

std::string WholeText(double number) {
  constexpr double kMost = 1e18;  // another process may send any number, or none
  return CountText(static_cast<std::uint64_t>(number > 0 ? std::min(number, kMost) : 0.0));
}

std::string BytesRateText(const Json& rate) { return rate.is_null() ? "-" : RateText(rate); }

std::string EndText(const Json& of) { return of["ended"] ? " (closed)\n" : "\n"; }

std::string ChainText(const Json& chain) {
  std::string text = "\nchain " + Shown(chain["chain"]) + EndText(chain);
  text += "  " + NumberText(chain["records_per_s"], 0) + " records/s, " +
          NumberText(chain["batches_per_s"], 1) + " batches/s, " +
          BytesRateText(chain["read_bytes_per_s"]) + " read; in all " +
          WholeText(chain["records"]) + " records, " + WholeText(chain["passes"]) + " passes\n";
  text += "  " + WholeText(chain["batches_ready"]) + " batches ready, " +
          WholeText(chain["batches_held"]) + " held; damaged " +
          WholeText(chain["damaged_records"]) + ", late wakes " + WholeText(chain["late_wakes"]) +
          "\n";
  TableRows rows = {{"  stage", "threads at work", "threads that wait"}};
  for (const Json& stage : chain["stages"]) {
    rows.push_back({"  " + Shown(stage["stage"]), NumberText(stage["busy_threads"], 2),
                    NumberText(stage["waiting_threads"], 2)});
  }
  return text + TableText(rows);
}

std::string FeedText(const Json& feed) {
  TableRows rows = {
      {"  device", "batches/s", "copied", "ahead", "held", "slots", "stall, ms/step"}};
  for (const Json& device : feed["devices"]) {
    rows.push_back({"  " + Shown(device["device"]), NumberText(device["batches_per_s"], 1),
                    BytesRateText(device["copied_bytes_per_s"]), WholeText(device["batches_ahead"]),
                    WholeText(device["leases"]), WholeText(device["slots"]),
                    NumberText(device["stall_ms_per_step"], 2)});
  }
  return "\nfeed " + Shown(feed["feed"]) + " to " + Shown(feed["backend"]) + EndText(feed) +
         TableText(rows);
}

std::string QueuesText(const Json& queues) {
  if (queues.empty()) return {};
  TableRows rows = {{"queue", "items", "room for", "pushes wait", "pops wait"}};
  for (const Json& queue : queues) {
    rows.push_back({Shown(queue["queue"]), WholeText(queue["items"]), WholeText(queue["capacity"]),
                    NumberText(queue["pushes_wait"], 2), NumberText(queue["pops_wait"], 2)});
  }
  return "\n" + TableText(rows);
}

/// A job at two moments: the difference between them.
class JobView {
 public:
  /// Both must outlive it.
  JobView(const JobMetrics& before, const JobMetrics& now) : before_(before), now_(now) {}

  Json ToJson() const {
    Json chains = Json::array();
    for (const std::string& chain : now_.LabelsOf("ringfeed_chain_info", "chain")) {
      chains.push_back(ChainJson(chain));
    }
    Json feeds = Json::array();
    for (const std::string& feed : now_.LabelsOf("ringfeed_feed_info", "feed")) {
      feeds.push_back(FeedJson(feed));
    }
    Json queues = Json::array();
    for (const std::string& queue : now_.LabelsOf("ringfeed_queue_items", "queue")) {
      const Labels wanted = {{"queue", queue}};
      queues.push_back({{"queue", queue},
                        {"items", Now("ringfeed_queue_items", wanted)},
                        {"capacity", Now("ringfeed_queue_capacity", wanted)},
                        {"pushes_wait", Rate("ringfeed_queue_push_wait_seconds_total", wanted)},
                        {"pops_wait", Rate("ringfeed_queue_pop_wait_seconds_total", wanted)}});
    }
    return {{"seconds", now_.time() - before_.time()},
            {"chains", chains},
            {"feeds", feeds},
            {"queues", queues}};
  }

  /// What ToJson has, for a person.
  std::string Text() const {
    std::string text;
    const Json job = ToJson();
    for (const Json& feed : job["feeds"]) text += FeedText(feed);
    for (const Json& chain : job["chains"]) text += ChainText(chain);
    text += QueuesText(job["queues"]);
    return text.empty() ? "\nnothing was read yet\n" : text;
  }

 private:
  using Labels = MetricSample::Labels;

  /// How much a counter rose in a second; null if that is not known.
  Json Rate(std::string_view name, const Labels& labels) const {
    const std::optional<double> before = before_.Value(name, labels);
    const std::optional<double> now = now_.Value(name, labels);
    const double seconds = now_.time() - before_.time();
    if (!before || !now || *now < *before || seconds <= 0) return nullptr;
    return (*now - *before) / seconds;
  }

  /// Mean wait in milliseconds for each step.
  Json WaitMs(std::string_view waited, const Labels& of_wait, std::string_view steps,
              const Labels& of_steps) const {
    const Json time = Rate(waited, of_wait);
    const Json count = Rate(steps, of_steps);
    if (time.is_null() || count.is_null() || count <= 0.0) return nullptr;
    return 1000 * time.get<double>() / count.get<double>();
  }

  double Now(std::string_view name, const Labels& labels) const {
    return now_.Value(name, labels).value_or(0);
  }

  Json ChainJson(const std::string& chain) const {
    const Labels wanted = {{"chain", chain}};
    Json stages = Json::array();
    for (const std::string& stage :
         now_.LabelsOf("ringfeed_stage_busy_seconds_total", "stage", wanted)) {
      const Labels of_stage = {{"chain", chain}, {"stage", stage}};
      stages.push_back({{"stage", stage},
                        {"busy_threads", Rate("ringfeed_stage_busy_seconds_total", of_stage)},
                        {"waiting_threads", Rate("ringfeed_stage_wait_seconds_total", of_stage)}});
    }
    return {{"chain", chain},
            {"source", now_.Label("ringfeed_chain_info", "source", wanted)},
            {"ended", Now("ringfeed_chain_ended", wanted) == 1},
            {"records", Now("ringfeed_chain_records_total", wanted)},
            {"batches", Now("ringfeed_chain_batches_total", wanted)},
            {"passes", Now("ringfeed_chain_passes_total", wanted)},
            {"damaged_records", Now("ringfeed_chain_damaged_records_total", wanted)},
            {"late_wakes", Now("ringfeed_chain_late_wakes_total", wanted)},
            {"batches_ready", Now("ringfeed_chain_batches_ready", wanted)},
            {"batches_held", Now("ringfeed_chain_batches_held", wanted)},
            {"records_per_s", Rate("ringfeed_chain_records_total", wanted)},
            {"batches_per_s", Rate("ringfeed_chain_batches_total", wanted)},
            {"read_bytes_per_s", Rate("ringfeed_chain_read_bytes_total", wanted)},
            {"stages", stages}};
  }

  Json FeedJson(const std::string& feed) const {
    Json devices = Json::array();
    for (const std::string& device :
         now_.LabelsOf("ringfeed_device_slots", "device", {{"feed", feed}})) {
      const Labels wanted = {{"feed", feed}, {"device", device}};
      devices.push_back({{"device", device},
                         {"batches", Now("ringfeed_device_batches_total", wanted)},
                         {"batches_ahead", Now("ringfeed_device_batches_ahead", wanted)},
                         {"leases", Now("ringfeed_device_leases", wanted)},
                         {"slots", Now("ringfeed_device_slots", wanted)},
                         {"batches_per_s", Rate("ringfeed_device_batches_total", wanted)},
                         {"copied_bytes_per_s", Rate("ringfeed_device_copied_bytes_total", wanted)},
                         {"stall_ms_per_step", WaitMs("ringfeed_device_wait_seconds_total", wanted,
                                                      "ringfeed_device_batches_total", wanted)}});
    }
    return {{"feed", feed},
            {"backend", now_.Label("ringfeed_feed_info", "backend", {{"feed", feed}})},
            {"ended", Now("ringfeed_feed_ended", {{"feed", feed}}) == 1},
            {"devices", devices}};
  }

  const JobMetrics& before_;
  const JobMetrics& now_;
};

void Sleep(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

// The job's metrics after `before`. For a file, the next version, if it comes.
JobMetrics NextLook(const MetricsAddress& address, const JobMetrics& before, double interval) {
  Sleep(interval);
  JobMetrics now = AskJob(address);
  if (address.kind != MetricsAddress::Kind::kFile) return now;
  const auto until = std::chrono::steady_clock::now() + kFilePatience;
  while (now.time() <= before.time() && std::chrono::steady_clock::now() < until) {
    Sleep(kLeastInterval);
    now = AskJob(address);
  }
  return now;
}

Json NoteJson(const JobNote& job) {
  return {{"pid", job.pid}, {"address", job.address}, {"command", job.command}};
}

// Why the word is no process; "" if it may be one.
std::string NoProcess(const std::string& word) {
  int pid = 0;
  const char* const last = word.data() + word.size();
  const auto [end, error] = std::from_chars(word.data(), last, pid);
  if (error == std::errc() && end == last && pid > 0) return {};
  return "\"" + word + "\" is no process number; `ringfeed top` alone lists the jobs";
}

class TopCommand : public Command {
 public:
  CLI::App* Declare(CLI::App* app) override {
    CLI::App* sub = app->add_subcommand("top", kTopHelp);
    CLI::Option* pid = sub->add_option("PID", pid_, "the job's process; without it, all are listed")
                           ->check(CLI::Validator(NoProcess, ""));
    sub->add_option("--at", at_,
                    "where a job shows itself, as RINGFEED_METRICS had it, in place of PID")
        ->excludes(pid);
    sub->add_option("--interval", interval_s_, "seconds between two looks")
        ->check(CLI::Range(kLeastInterval, kMostInterval))
        ->capture_default_str();
    sub->add_flag("--once", once_, "two looks, and what was between them; so without a terminal");
    sub->add_flag("--json", json_, "the report for machines (docs/JSON.md), once");
    return sub;
  }

  int Run() override {
    if (pid_ == 0 && at_.empty()) return ListJobs();
    const JobNote job = TheJob();
    AddressContext context = OwnAddressContext();
    context.may_be_public = true;  // it is asked, not shown
    const MetricsAddress address = ParseMetricsAddress(Escaped(job.address), context);
    const bool once = once_ || json_ || isatty(STDOUT_FILENO) != 1;
    std::optional<JobMetrics> before = AskJob(address);
    do {
      JobMetrics now = NextLook(address, *before, interval_s_);
      Show(job, JobView(*before, now), once);
      before = std::move(now);
    } while (!once);
    return kExitFine;
  }

 private:
  // A % in an address that is known stands for itself.
  std::string Escaped(const std::string& address) const {
    if (!at_.empty()) return address;
    std::string escaped;
    for (const char c : address) escaped += c == '%' ? std::string("%%") : std::string(1, c);
    return escaped;
  }

  JobNote TheJob() const {
    if (!at_.empty()) return {.address = at_};
    const std::vector<JobNote> jobs = FindJobs();
    const auto found = std::ranges::find(jobs, pid_, &JobNote::pid);
    if (found != jobs.end()) return *found;
    throw Refuse("process " + std::to_string(pid_) +
                 " shows nothing to this user: start the job with RINGFEED_METRICS="
                 "unix:/tmp/job-%p, and see which there are by `ringfeed top`");
  }

  int ListJobs() const {
    const std::vector<JobNote> jobs = FindJobs();
    if (json_) {
      Json list = Json::array();
      for (const JobNote& job : jobs) list.push_back(NoteJson(job));
      PrintJson("top", {{"jobs", list}});
      return kExitFine;
    }
    if (jobs.empty()) {
      std::puts(
          "no job of this user shows what it does: RINGFEED_METRICS=unix:/tmp/job-%p lets it");
      return kExitFine;
    }
    TableRows rows = {{"pid", "shows itself at", "command"}};
    for (const JobNote& job : jobs) {
      rows.push_back({std::to_string(job.pid), LabelText(job.address, kMostCommand),
                      LabelText(job.command.substr(0, kMostCommand), kMostCommand)});
    }
    std::fputs(TableText(rows).c_str(), stdout);
    return kExitFine;
  }

  void Show(const JobNote& job, const JobView& view, bool once) const {
    if (json_) {
      Json json = NoteJson(job);
      json.update(view.ToJson());
      PrintJson("top", {{"jobs", Json::array({json})}});
      return;
    }
    std::string text = once ? "" : "\033[H\033[2J";
    if (job.pid != 0) text += "job " + std::to_string(job.pid) + " at ";
    text += LabelText(job.address, kMostCommand) + "  " +
            LabelText(job.command.substr(0, kMostCommand), kMostCommand) + "\n" + view.Text();
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  }

  int pid_ = 0;
  std::string at_;
  double interval_s_ = 1;
  bool once_ = false;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> NewTopCommand() { return std::make_unique<TopCommand>(); }

}  // namespace ringfeed::tools
