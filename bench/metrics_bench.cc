// What it costs a job to be shown by RINGFEED_METRICS and looked at every second, as a page and
// `ringfeed top` do. Both sides are the command, a process of its own each; their digests of what
// was delivered must agree.
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
#include <functional>
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
#include "ringfeed/status.h"

namespace ringfeed::bench {
namespace {

constexpr char kCpuMetric[] = "\nringfeed_metrics_cpu_seconds_total ";

// What the job at that socket shows; "" if there is none yet.
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

// Looks at a job every second until it is asked to stop. *cpu_s: of the thread that shows the job,
// as of the last look.
void LookAgain(const std::stop_token& stop, const std::string& path, double* cpu_s) {
  const std::chrono::milliseconds every(Sized(1000, 20));
  std::mutex mutex;
  std::condition_variable_any waits;
  std::unique_lock lock(mutex);
  while (!stop.stop_requested()) {
    const std::string answer = Look(path);
    const std::size_t at = answer.find(kCpuMetric);
    if (at != std::string::npos) *cpu_s = std::atof(answer.c_str() + at + sizeof(kCpuMetric) - 1);
    (void)waits.wait_for(lock, stop, every, [] { return false; });
  }
}

// The command's feed. CPU seconds are those of the whole process, or of the thread that shows it.
enum class Shown { kNo, kYes, kShowingAlone };

LoopResult RunJob(const BenchFiles& files, Shown shown, bool digest) {
  const std::string output = files.paths[0] + ".shown.json";
  const std::string socket = "/tmp/ringfeed-bench-" + std::to_string(getpid());
  const std::string passes = digest ? "1" : std::to_string(Sized(40, 2));
  std::vector<std::string> words = {
      "env",
      shown == Shown::kNo ? "RINGFEED_METRICS=" : "RINGFEED_METRICS=unix:" + socket,
      RingfeedCommand(),
      "feed",
      "--json",
      "--batch",
      "1024",
      "--passes",
      passes,
      "--parse",
      "example: dense=f4[13] sparse=i8[26] label=i8[1]"};
  if (!digest) words.emplace_back("--no-digest");
  words.insert(words.end(), files.paths.begin(), files.paths.end());
  double showing_s = 0;
  std::jthread looker(LookAgain, socket, &showing_s);
  LoopResult result = RunChild(words, output);
  looker.request_stop();
  looker.join();
  // A smoke run and a digest's one pass may be over before the first look.
  if (shown != Shown::kNo && !digest && !SmokeRun() && showing_s <= 0) {
    result.failure = "the job was not shown";
  }
  if (shown == Shown::kShowingAlone) result.cpu_s = showing_s;
  const auto report = nlohmann::json::parse(ReadWhole(output));
  std::filesystem::remove(output);
  result.records = report["records"].get<std::uint64_t>();
  result.bytes = report["payload_bytes"].get<std::uint64_t>();
  if (digest) {
    result.digest = std::hash<std::string>()(report["order_digest"].get<std::string>());
  }
  return result;
}

Work JobWork(const char* row, const Measure& measure, Shown shown) {
  return {{{row, measure}}, [=] {
            const BenchFiles files = SmallExamples(Sized(1'000'000, 20'000), 4);
            BringIntoMemory(files);
            return Digested([=](bool digest) { return RunJob(files, shown, digest); },
                            [=](bool digest) { return RunJob(files, Shown::kNo, digest); });
          }};
}

}  // namespace

std::vector<Work> Works(int /*threads*/) {
  return {JobWork("metrics.feed_shown", kRecordsPerCpuS, Shown::kYes),
          JobWork("metrics.show_cpu", kPercentOfACore, Shown::kShowingAlone)};
}

}  // namespace ringfeed::bench
