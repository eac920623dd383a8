// Draws chains from the space of chain_space.cc, runs each and compares it with the model. Each
// runs in a child process, which a hang or a crash ends, and the search goes on behind it.

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "tests/combinations/chain_space.h"
#include "tests/combinations/chain_trial.h"
#include "tests/combinations/progress_watch.h"
#include "tests/remote/nginx_server.h"
#include "tests/support/stress_scale.h"

namespace ringfeed {

namespace {

constexpr int kFoundExit = 11;
constexpr int kRenewExit = 12;
constexpr int kHangExit = 97;

struct Options {
  double seconds = 0;  ///< 0: as long as there are configurations
  std::uint64_t count = 0;
  std::uint64_t seed = 0;
  bool pairs = false;
  bool shrinks = true;
  bool verbose = false;
  int tries = 1;
  std::string only;
  std::vector<Setting> with;
  std::string regressions;
};

constexpr const char* kFolderName = "ringfeed_combinations.";

/// What searches that were killed left in `parent`: their folders have their numbers.
void RemoveLeftovers(const std::string& parent) {
  const std::string_view prefix = kFolderName;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(parent, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix)) continue;
    pid_t process = 0;
    const char* const end = name.data() + name.size();
    const auto [behind, error] = std::from_chars(name.data() + prefix.size(), end, process);
    if (error != std::errc() || behind != end || process <= 0) continue;
    if (kill(process, 0) == 0 || errno != ESRCH) continue;
    std::filesystem::remove_all(entry.path(), ignored);
  }
}

/// What a child says; it outlives the child.
struct Shared {
  std::atomic<std::uint64_t> next;  // relaxed: read when the child is gone
  char report[8192];

  void Say(const std::string& text) {
    const std::size_t length = std::min(text.size(), sizeof(report) - 1);
    std::memcpy(report, text.data(), length);
    report[length] = '\0';
  }
};

using Source = std::function<std::optional<Configuration>(std::uint64_t index)>;
using Clock = std::chrono::steady_clock;

class Search {
 public:
  explicit Search(const Options& options) : options_(options) {
    const char* parent = std::filesystem::is_directory("/dev/shm") ? "/dev/shm" : "/tmp";
    RemoveLeftovers(parent);
    folder_ = std::string(parent) + "/" + kFolderName + std::to_string(getpid());
    std::filesystem::create_directories(folder_);
    if (NginxServer::Missing().empty()) {
      server_ = std::make_unique<NginxServer>(folder_);
      address_ = "http://127.0.0.1:" + std::to_string(server_->port());
    } else {
      std::cout << NginxServer::Missing() << ": all files are read from the disk\n";
    }
    void* memory =
        mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    shared_ = new (memory) Shared();
  }
  ~Search() { std::filesystem::remove_all(folder_); }
  Search(const Search&) = delete;
  Search& operator=(const Search&) = delete;

  /// Runs what the source gives, until it has no more or the time is over.
  void Run(const Source& source, double seconds) {
    const auto end = Clock::now() + std::chrono::duration<double>(seconds);
    std::uint64_t next = 0;
    while (true) {
      const auto on_time = [&] { return seconds == 0 || Clock::now() < end; };
      if (!source(next) || !on_time()) break;
      const std::string found = RunChild(source, next, on_time);
      const std::uint64_t stopped = shared_->next.load(std::memory_order_relaxed);
      ran_ += stopped - next;
      next = stopped;
      if (found.empty()) continue;
      ++ran_;
      Report(*source(next), found);
      ++next;
    }
  }

  int Finish() const {
    std::cout << ran_ << " configurations, " << differences_ << " differences\n";
    return differences_ == 0 ? 0 : 1;
  }

 private:
  /// Runs configurations from `first` on in a child. Returns what was found at Shared::next, ""
  /// where it ended for another reason.
  std::string RunChild(const Source& source, std::uint64_t first,
                       const std::function<bool()>& on_time) {
    shared_->next.store(first, std::memory_order_relaxed);
    shared_->Say("");
    std::cout.flush();
    const pid_t child = fork();
    if (child == 0) Work(source, first, on_time);
    int status = 0;
    while (waitpid(child, &status, 0) != child) continue;
    if (WIFSIGNALED(status)) {
      return "the process died by signal " + std::to_string(WTERMSIG(status));
    }
    const int code = WEXITSTATUS(status);
    if (code == 0 || code == kRenewExit) return "";
    if (code == kFoundExit || code == kHangExit) return shared_->report;
    return "the process ended with status " + std::to_string(code);
  }

  /// What wants all of the machine's memory is to fail instead.
  static void LimitMemory() {
    if (kSanitized) return;
    constexpr rlim_t kMostBytes = rlim_t{12} << 30;
    const rlimit limit{kMostBytes, kMostBytes};
    (void)setrlimit(RLIMIT_AS, &limit);
  }

  [[noreturn]] void Work(const Source& source, std::uint64_t first,
                         const std::function<bool()>& on_time) {
    std::signal(SIGPIPE, SIG_IGN);
    LimitMemory();
    const ProgressWatch watch([this](const std::string& threads) {
      shared_->Say("hang: " + threads);
      _exit(kHangExit);
    });
    TrialBench bench(folder_, address_);
    constexpr std::uint64_t kMost = 500;  // what a process gathers is let go of
    for (std::uint64_t index = first; on_time(); ++index) {
      const auto configuration = source(index);
      if (!configuration) _exit(0);
      if (index == first + kMost) _exit(kRenewExit);
      shared_->next.store(index, std::memory_order_relaxed);
      if (options_.verbose) std::cerr << index << " " << configuration->ToString() << std::endl;
      const std::string difference = RunTrial(*configuration, &bench);
      if (!difference.empty()) {
        shared_->Say(difference);
        _exit(kFoundExit);
      }
      shared_->next.store(index + 1, std::memory_order_relaxed);
      // Nothing brings io_uring back.
      if (configuration->IsAnyOf(Option::kPath, "refused gives_up")) _exit(kRenewExit);
    }
    _exit(kRenewExit);
  }

  /// What one configuration by itself shows in so many tries.
  std::string Try(const Configuration& configuration, int tries) {
    const Source source = [&](std::uint64_t index) -> std::optional<Configuration> {
      if (index >= static_cast<std::uint64_t>(tries)) return std::nullopt;
      return configuration;
    };
    return RunChild(source, 0, [] { return true; });
  }

  void Report(const Configuration& configuration, const std::string& found) {
    ++differences_;
    std::cout << "difference: " << found << "\n  --only '" << configuration.ToString() << "'\n";
    constexpr std::uint64_t kMostShrunk = 12;
    if (!options_.shrinks || differences_ > kMostShrunk) return;
    const Configuration small = Shrunk(configuration, KindOf(found));
    std::cout << "  smallest: " << small.ToString() << std::endl;
  }

  /// The words of a difference, up to its first number: what a smaller one is to have in common.
  static std::string KindOf(const std::string& found) {
    constexpr std::size_t kMost = 12;
    const std::size_t first = found.find_first_not_of("0123456789 ");
    if (first == std::string::npos) return found;
    const std::size_t end = found.find_first_of("0123456789:[{", first);
    return found.substr(first, std::min(kMost, end - first));
  }

  Configuration Shrunk(Configuration configuration, const std::string& kind) {
    constexpr int kTries = 3;
    const auto end = Clock::now() + std::chrono::seconds(60);
    for (bool changed = true; changed;) {
      changed = false;
      for (const OptionSpec& spec : ChainSpace()) {
        const std::size_t value = configuration.value(spec.option);
        if (value == 0 || Clock::now() > end) continue;
        Configuration smaller = configuration;
        smaller.Set(spec.option, 0);
        if (!IsPossible(smaller) || KindOf(Try(smaller, kTries)) != kind) continue;
        configuration = smaller;
        changed = true;
      }
    }
    return configuration;
  }

  const Options options_;
  std::string folder_;
  std::unique_ptr<NginxServer> server_;  ///< serves the folder; null: there is none here
  std::string address_;
  Shared* shared_ = nullptr;
  std::uint64_t ran_ = 0;
  std::uint64_t differences_ = 0;
};

Source OfList(std::vector<Configuration> list) {
  return [list = std::move(list)](std::uint64_t index) -> std::optional<Configuration> {
    if (index >= list.size()) return std::nullopt;
    return list[static_cast<std::size_t>(index)];
  };
}

Source OfSeed(std::uint64_t seed, std::uint64_t count, const std::vector<Setting>& with) {
  return [seed, count, with](std::uint64_t index) -> std::optional<Configuration> {
    if (count != 0 && index >= count) return std::nullopt;
    std::mt19937_64 random(seed * 0x9E3779B97F4A7C15 + index);
    return RandomConfiguration(random, with);
  };
}

std::vector<Configuration> ReadLines(const std::string& path) {
  std::ifstream file(path);
  std::vector<Configuration> list;
  for (std::string line; std::getline(file, line);) {
    line = line.substr(0, line.find('#'));
    if (line.find_first_not_of(' ') == std::string::npos) continue;
    const auto configuration = Configuration::Parse(line);
    if (!configuration || !IsPossible(*configuration)) {
      std::cerr << path << ": no configuration: " << line << "\n";
      std::exit(2);
    }
    list.push_back(*configuration);
  }
  if (!file.eof()) {
    std::cerr << path << " cannot be read\n";
    std::exit(2);
  }
  return list;
}

bool Understand(const std::vector<std::string>& words, Options* options) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--pairs") {
      options->pairs = true;
    } else if (word == "--verbose") {
      options->verbose = true;
    } else if (word == "--no-shrink") {
      options->shrinks = false;
    } else if (i + 1 == words.size()) {
      return false;
    } else if (word == "--seconds") {
      options->seconds = std::stod(words[++i]);
    } else if (word == "--seed") {
      options->seed = std::stoull(words[++i]);
    } else if (word == "--count") {
      options->count = std::stoull(words[++i]);
    } else if (word == "--tries") {
      options->tries = std::stoi(words[++i]);
    } else if (word == "--with") {
      const auto with = Configuration::Parse(words[++i]);
      if (!with) return false;
      options->with = with->Settings();
    } else if (word == "--only") {
      options->only = words[++i];
    } else if (word == "--regressions") {
      options->regressions = words[++i];
    } else {
      return false;
    }
  }
  return true;
}

int Run(const Options& options) {
  Search search(options);
  std::vector<Configuration> list;
  if (!options.only.empty()) {
    const auto only = Configuration::Parse(options.only);
    if (!only) {
      std::cerr << "no configuration: " << options.only << "\n";
      return 2;
    }
    if (!IsPossible(*only)) std::cout << "its settings do not go together\n";
    list.assign(static_cast<std::size_t>(options.tries), *only);
    search.Run(OfList(list), 0);
    return search.Finish();
  }
  if (!options.regressions.empty()) {
    for (const Configuration& each : ReadLines(options.regressions)) {
      for (int i = 0; i < options.tries; ++i) list.push_back(each);
    }
    search.Run(OfList(list), 0);
    return search.Finish();
  }
  std::cout << "seed " << options.seed << std::endl;
  if (options.pairs) {
    std::mt19937_64 random(options.seed);
    search.Run(OfList(PairCover(random)), 0);
  }
  if (!options.pairs || options.seconds > 0 || options.count > 0) {
    search.Run(OfSeed(options.seed, options.count, options.with), options.seconds);
  }
  return search.Finish();
}

}  // namespace

}  // namespace ringfeed

int main(int argc, char** argv) {
  ringfeed::Options options;
  options.seed = std::random_device()() % 1'000'000'000;
  const bool understood =
      ringfeed::Understand(std::vector<std::string>(argv + 1, argv + argc), &options);
  if (!understood) {
    std::cerr
        << "usage: chain_search [--pairs] [--seconds N] [--count N] [--seed S] [--no-shrink]\n"
           "                    [--with SETTINGS] [--only CONFIGURATION] [--regressions FILE]\n"
           "                    [--tries N] [--verbose]\n";
    return 2;
  }
  if (const char* seconds = std::getenv("RINGFEED_SEARCH_SECONDS")) {
    options.seconds = std::stod(seconds);
  }
  return ringfeed::Run(options);
}
