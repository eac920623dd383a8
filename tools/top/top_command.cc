#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
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
#include "tools/top/job_view.h"

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
    sub->add_flag("--json", json_, "the report for machines, once");
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
      PrintJson(list);
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
      PrintJson(json);
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
