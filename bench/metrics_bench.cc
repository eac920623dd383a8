// What it costs a job to be shown by RINGFEED_METRICS and looked at every second, as a page and
// `ringfeed top` do: see paired_rows.h for how to run it. Both sides are the command, a process of
// its own each; their digests of what was delivered must agree.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <mutex>
#include <nlohmann/json.hpp>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "bench/bench_data.h"
#include "bench/child_process.h"
#include "bench/paired_rows.h"
#include "ringfeed/status.h"

namespace ringfeed::bench {
namespace {

constexpr char kCpuMetric[] = "\nringfeed_metrics_cpu_seconds_total ";

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// What the job at that socket shows; "" where there is none yet.
std::string Look(const std::string& path) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::copy_n(path.data(), std::min(path.size(), sizeof(name.sun_path) - 1), name.sun_path);
  const int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  std::string answer;
  constexpr std::string_view kRequest =
      "GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text\r\n\r\n";
  if (connect(client, reinterpret_cast<const sockaddr*>(&name), sizeof(name)) == 0 &&
      send(client, kRequest.data(), kRequest.size(), MSG_NOSIGNAL) > 0) {
    std::array<char, 65536> piece;
    for (ssize_t got = 0; (got = recv(client, piece.data(), piece.size(), 0)) > 0;) {
      answer.append(piece.data(), static_cast<std::size_t>(got));
    }
  }
  (void)close(client);
  return answer;
}

/// Looks at a job every second until it goes.
class Looker {
 public:
  explicit Looker(std::string path)
      : path_(std::move(path)), thread_([this](const std::stop_token& stop) { Run(stop); }) {}
  /// CPU seconds of the thread that shows the job, as of the last look.
  double Stop() {
    thread_.request_stop();
    thread_.join();
    return cpu_s_;
  }

 private:
  void Run(const std::stop_token& stop) {
    const std::chrono::milliseconds every(SmokeRun() ? 20 : 1000);
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
      const std::string answer = Look(path_);
      const std::size_t at = answer.find(kCpuMetric);
      if (at != std::string::npos) cpu_s_ = std::atof(answer.c_str() + at + sizeof(kCpuMetric) - 1);
      (void)waits_.wait_for(lock, stop, every, [] { return false; });
    }
  }

  const std::string path_;
  std::mutex mutex_;
  std::condition_variable_any waits_;
  double cpu_s_ = 0;
  std::jthread thread_;
};

struct ShownJob {
  LoopResult job;        ///< CPU seconds of the whole process
  double showing_s = 0;  ///< of the thread that shows it
};

ShownJob RunJob(const BenchFiles& files, bool shown, bool digest) {
  const std::string output = files.paths[0] + ".shown.json";
  const std::string socket = "/tmp/ringfeed-bench-" + std::to_string(getpid());
  std::vector<std::string> words = {
      "env", shown ? "RINGFEED_METRICS=unix:" + socket : "RINGFEED_METRICS="};
  const std::vector<std::string> feed = {RingfeedCommand(),
                                         "feed",
                                         "--json",
                                         "--batch",
                                         "1024",
                                         "--passes",
                                         SmokeRun() ? "2"
                                         : digest   ? "1"
                                                    : "40",
                                         "--parse",
                                         "example: dense=f4[13] sparse=i8[26] label=i8[1]"};
  words.insert(words.end(), feed.begin(), feed.end());
  if (!digest) words.emplace_back("--no-digest");
  words.insert(words.end(), files.paths.begin(), files.paths.end());
  Looker looker(socket);
  const ChildFigures figures = RunChild(words, output);
  ShownJob result;
  result.showing_s = looker.Stop();
  if (figures.exit_status != 0) throw Error(Status(StatusCode::kInternal, "feed failed"));
  // A smoke run and a digest's one pass may be over before the first look.
  if (shown && !digest && !SmokeRun() && result.showing_s <= 0) {
    throw Error(Status(StatusCode::kInternal, "the job was not shown"));
  }
  const auto report = nlohmann::json::parse(ReadAll(output));
  std::filesystem::remove(output);
  result.job.cpu_s = figures.cpu_s;
  result.job.wall_s = figures.wall_s;
  result.job.records = report["records"].get<std::uint64_t>();
  result.job.bytes = report["payload_bytes"].get<std::uint64_t>();
  if (digest) {
    result.job.digest = std::hash<std::string>()(report["order_digest"].get<std::string>());
  }
  return result;
}

double PercentOfACore(const LoopResult& result) { return 100 * result.cpu_s / result.wall_s; }

std::vector<PairedRow> Rows() {
  const BenchFiles files = SmallExamples(SmokeRun() ? 20'000 : 1'000'000, 4);
  BringIntoMemory(files);
  const auto unshown = [=](bool digest) { return RunJob(files, false, digest).job; };
  return {{"metrics.feed_shown", "records/CPU s",
           [=](bool digest) { return RunJob(files, true, digest).job; }, unshown},
          {"metrics.show_cpu", "% of a core",
           [=](bool digest) {
             ShownJob result = RunJob(files, true, digest);
             result.job.cpu_s = result.showing_s;
             return result.job;
           },
           unshown, PercentOfACore}};
}

}  // namespace
}  // namespace ringfeed::bench

int main(int argc, char** argv) {
  return ringfeed::bench::PairedMain(argc, argv, ringfeed::bench::Rows);
}
