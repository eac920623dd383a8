#include "tools/tune/tune_search.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>

#include "tools/process_usage.h"
#include "tools/report.h"

namespace ringfeed::tools {
namespace {

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * kKiB;
constexpr int kMostThreads = 16;
constexpr std::size_t kMostTogether = 8;
constexpr std::size_t kValuePairs = 2;
constexpr double kLastRuns = 4;  // so much longer than the shortest ones
constexpr double kShortestRun = 0.02;
constexpr double kLongestRun = 2;
// Parts of the time after which the search no longer tries values, and several together.
constexpr double kValuesShare = 0.6;
constexpr double kTogetherShare = 0.75;

// The changes of `one` against the defaults, on top of `settings`.
SpeedSettings With(SpeedSettings settings, const SpeedSettings& one) {
  const SpeedSettings defaults;
  SpeedSettings::ForEach([&](const char* /*option*/, const auto member) {
    if (one.*member != defaults.*member) settings.*member = one.*member;
  });
  return settings;
}

double MedianOf(const TriedSettings& tried) { return tried.spread().median; }

bool IsFaster(const TriedSettings& a, const TriedSettings& b) { return MedianOf(a) > MedianOf(b); }

// For each option the fastest value, if it was faster than the defaults; the best first.
std::vector<TriedSettings> BestOfEach(const std::vector<TriedSettings>& values) {
  std::map<std::string, TriedSettings> best;
  for (const TriedSettings& tried : values) {
    if (!tried.status.ok() || MedianOf(tried) <= 1) continue;
    auto [found, is_new] = best.try_emplace(tried.what.option, tried);
    if (!is_new && IsFaster(tried, found->second)) found->second = tried;
  }
  std::vector<TriedSettings> list;
  for (auto& [option, tried] : best) list.push_back(std::move(tried));
  std::sort(list.begin(), list.end(), IsFaster);
  return list;
}

// The best value by itself, the two best, …, all of them; then the others by themselves.
std::vector<TriedSettings> Combinations(const std::vector<TriedSettings>& best) {
  std::vector<TriedSettings> list;
  SpeedSettings together;
  for (const TriedSettings& one : best) {
    together = With(together, one.what.settings);
    list.push_back({{"together", "", together}, {}, {}});
  }
  for (std::size_t i = 1; i < best.size(); ++i) {
    list.push_back({{"together", "", best[i].what.settings}, {}, {}});
  }
  if (list.size() > kMostTogether) list.resize(kMostTogether);
  return list;
}

// Length of a search in shortest runs: for `values` values, then for the combinations, then for the
// last pairs.
double RunsOf(std::size_t values, std::size_t pairs) {
  const double by_value = 2.0 * kValuePairs * static_cast<double>(values);
  const double together = 2.0 * kMostTogether * 3;  // halves in twice the time, three rounds
  return by_value + together + 2.0 * kLastRuns * static_cast<double>(pairs);
}

}  // namespace

std::vector<OptionValue> ValuesOf(const TuneSpace& space) {
  std::vector<OptionValue> list;
  const auto add = [&list](const char* option, auto member, auto value, const std::string& text) {
    SpeedSettings settings;
    if (settings.*member == value) return;
    settings.*member = value;
    list.push_back({option, text, settings});
  };
  const auto add_bytes = [&add](const char* option, auto member, std::size_t bytes) {
    add(option, member, bytes, BytesText(bytes));
  };
  const auto add_count = [&add](const char* option, auto member, auto count) {
    add(option, member, count, std::to_string(count));
  };
  for (const IoPath path : {IoPath::kUring, IoPath::kPread, IoPath::kMmap}) {
    add("io", &SpeedSettings::path, path, std::string(IoPathName(path)));
  }
  if (space.cold) add("direct", &SpeedSettings::direct, false, "no");
  for (int threads = 1; threads <= std::min(space.cpus, kMostThreads); threads *= 2) {
    add_count("threads", &SpeedSettings::threads, threads);
  }
  for (const std::size_t bytes : {128 * kKiB, 256 * kKiB, 1 * kMiB, 2 * kMiB}) {
    add_bytes("block-bytes", &SpeedSettings::block_bytes, bytes);
  }
  for (const std::size_t bytes : {2 * kMiB, 8 * kMiB, 16 * kMiB, 32 * kMiB}) {
    if (space.cold) add_bytes("in-flight-bytes", &SpeedSettings::in_flight_bytes, bytes);
  }
  for (const std::size_t slots : {4U, 8U, 16U}) {
    if (space.batches) add_count("slots", &SpeedSettings::slots, slots);
  }
  if (!space.devices) return list;
  for (const std::size_t slots : {2U, 4U, 8U}) {
    add_count("device-slots", &SpeedSettings::device_slots, slots);
  }
  for (const TransferPlan plan :
       {TransferPlan::kBatch, TransferPlan::kMembers, TransferPlan::kSlabs}) {
    add("transfer", &SpeedSettings::transfer, plan, std::string(TransferPlanName(plan)));
  }
  return list;
}

TuneSearch::TuneSearch(Options options, Measure measure, Progress progress)
    : options_(options), measure_(std::move(measure)), progress_(std::move(progress)) {}

BenchFigure TuneSearch::MeasureDefaults(double seconds) {
  BenchFigure figure = measure_(SpeedSettings(), seconds);
  if (figure.status.ok()) result_.before = figure;
  return figure;
}

// Whether a pair of runs of so many seconds each ends within this part of the time.
bool TuneSearch::HasTimeFor(double seconds, double share) {
  const double pair_s = 2 * (start_s_ + options_.run_cost * seconds);
  if (Elapsed() + pair_s <= share * options_.seconds) return true;
  result_.time_was_up = true;
  return false;
}

// A run was ended before it had its figures.
void TuneSearch::EndEarly() {
  if (Elapsed() >= options_.seconds) {
    result_.time_was_up = true;
  } else {
    stopped_ = true;
  }
}

bool TuneSearch::Pair(TriedSettings* tried, double seconds) {
  if (stopped_ || !tried->status.ok()) return false;
  const double before_s = options_.now();
  const bool first = pairs_done_++ % 2 == 0;
  BenchFigure ours;
  if (first) ours = measure_(tried->what.settings, seconds);
  const bool ended = ours.status.code() == StatusCode::kCancelled;
  const BenchFigure defaults = ended ? BenchFigure() : MeasureDefaults(seconds);
  if (!first) ours = measure_(tried->what.settings, seconds);
  for (const BenchFigure* figure : {&std::as_const(ours), &defaults}) {
    if (figure->status.code() != StatusCode::kCancelled) continue;
    EndEarly();
    return false;
  }
  const double run_s = (options_.now() - before_s) / 2;
  start_s_ = (start_s_ + std::max(0.0, run_s - options_.run_cost * seconds)) / 2;
  stopped_ = !progress_(std::clamp(Elapsed() / expected_s_, 0.0, 1.0));
  tried->status = ours.status.ok() ? defaults.status : ours.status;
  if (!tried->status.ok()) return false;
  tried->ratios.push_back(ours.gb_per_s / defaults.gb_per_s);
  result_.after = ours;
  return true;
}

void TuneSearch::TryValues(const TuneSpace& space) {
  for (OptionValue& value : ValuesOf(space)) {
    TriedSettings tried{std::move(value), {}, {}};
    for (std::size_t pair = 0; pair < kValuePairs && HasTimeFor(run_s_, kValuesShare); ++pair) {
      if (!Pair(&tried, run_s_)) break;
    }
    if (tried.ratios.empty() && tried.status.ok() && result_.time_was_up) {
      tried.status = Status(StatusCode::kDeadlineExceeded, "there was no time left to try it");
    }
    if (!tried.ratios.empty() || !tried.status.ok()) result_.values.push_back(std::move(tried));
    if (stopped_) return;
  }
}

// Leaves the faster half. False if they differ by less than the spread of each.
bool TuneSearch::Halve(std::vector<TriedSettings>* left) {
  std::stable_sort(left->begin(), left->end(), IsFaster);
  const SampleSpread best = left->front().spread();
  const double range = MedianOf(left->front()) - MedianOf(left->back());
  const bool differ = best.max - best.min < range;
  const std::size_t stay = (left->size() + 1) / 2;
  for (std::size_t i = left->size(); i > stay; --i) {
    result_.together.insert(result_.together.begin(), std::move(left->back()));
    left->pop_back();
  }
  return differ;
}

void TuneSearch::TryTogether() {
  std::vector<TriedSettings> left = Combinations(BestOfEach(result_.values));
  double seconds = run_s_;
  while (!left.empty() && !stopped_) {
    for (TriedSettings& tried : left) {
      if (!HasTimeFor(seconds, kTogetherShare)) break;
      (void)Pair(&tried, seconds);
    }
    // Without time for any of them, the first is compared at last.
    const bool none = !stopped_ && std::ranges::all_of(left, [](const TriedSettings& tried) {
      return tried.status.ok() && tried.ratios.empty();
    });
    if (none) left.resize(1);
    std::erase_if(left, [none](const TriedSettings& tried) {
      return !tried.status.ok() || (tried.ratios.empty() && !none);
    });
    if (left.size() <= 1 || Elapsed() >= kTogetherShare * options_.seconds) break;
    const bool differ = Halve(&left);
    // These cannot be told apart: the one with the fewest changes comes first.
    if (!differ && seconds >= kLastRuns * run_s_) break;
    seconds = std::min(2 * seconds, kLastRuns * run_s_);
  }
  result_.together.insert(result_.together.begin(), std::make_move_iterator(left.begin()),
                          std::make_move_iterator(left.end()));
}

void TuneSearch::Accept(const TriedSettings& winner, const char* verdict) {
  result_.best = winner.what.settings;
  result_.gain = winner.spread();
  result_.pairs = winner.ratios.size();
  result_.verdict = verdict;
}

// Of the settings that were faster in each of two pairs or more.
const TriedSettings* TuneSearch::BestSoFar() const {
  const TriedSettings* best = nullptr;
  for (const std::vector<TriedSettings>* list : {&result_.values, &result_.together}) {
    for (const TriedSettings& tried : *list) {
      const bool counts =
          tried.status.ok() && tried.ratios.size() >= kValuePairs && tried.spread().min > 1;
      if (counts && (best == nullptr || IsFaster(tried, *best))) best = &tried;
    }
  }
  return best;
}

void TuneSearch::DecideWithBestSoFar(const char* verdict, const char* without) {
  const TriedSettings* const best = BestSoFar();
  if (best != nullptr) return Accept(*best, verdict);
  result_.verdict = without;
}

// In runs as long as time allows. Measured settings stay as they are if there is no time.
void TuneSearch::CompareAtLast(TriedSettings* last) {
  const double left_s = options_.seconds - Elapsed();
  const double each_s = left_s / (2.0 * static_cast<double>(options_.pairs)) - start_s_;
  const double seconds = std::clamp(each_s / options_.run_cost, kShortestRun, kLastRuns * run_s_);
  while (last->ratios.size() < options_.pairs && HasTimeFor(seconds, 1)) {
    if (!Pair(last, seconds)) return;
  }
}

void TuneSearch::Decide() {
  TriedSettings last;
  const bool faster = !result_.together.empty();
  if (faster && !stopped_) {
    last.what = result_.together.front().what;
    CompareAtLast(&last);
  }
  if (stopped_) {
    return DecideWithBestSoFar("it was stopped: this was the fastest so far",
                               "it was stopped before anything was faster than the defaults");
  }
  if (!faster) {
    result_.verdict = result_.time_was_up
                          ? "nothing that there was time for was faster than the defaults"
                          : "no value of any option was faster than the defaults";
    return;
  }
  const std::size_t pairs = last.ratios.size();
  if (last.status.ok() && pairs < kValuePairs) {
    return DecideWithBestSoFar("the time was up: this was the fastest so far",
                               "the time was up before anything was faster than the defaults");
  }
  if (!last.status.ok() || last.spread().min <= 1) {
    result_.verdict = "what is gained is less than the runs vary by";
    return;
  }
  Accept(last, pairs == options_.pairs
                   ? "it was faster than the defaults in each of the last pairs of runs"
                   : "it was faster than the defaults in each pair that there was time for");
}

// Finds how long runs may be from the first one, which also brings the machine to speed.
void TuneSearch::Begin(const TuneSpace& space) {
  begin_s_ = options_.now();
  const double runs = RunsOf(ValuesOf(space).size(), options_.pairs);
  const double share_s = options_.seconds / runs;
  run_s_ = std::clamp(share_s / options_.run_cost, kShortestRun, kLongestRun);
  const BenchFigure defaults = MeasureDefaults(run_s_);
  if (defaults.status.code() == StatusCode::kCancelled) EndEarly();
  if (stopped_) return;
  if (result_.time_was_up) {
    throw Error(Status(StatusCode::kInvalidArgument,
                       "not even one run of the defaults ended in time: give it more --seconds, or "
                       "fewer --bytes"));
  }
  if (!defaults.status.ok()) throw Error(defaults.status);
  start_s_ = std::max(0.0, Elapsed() - options_.run_cost * run_s_);
  run_s_ = std::clamp((share_s - start_s_) / options_.run_cost, kShortestRun, kLongestRun);
  expected_s_ = std::min(options_.seconds, runs * (start_s_ + options_.run_cost * run_s_));
}

TuneResult TuneSearch::Run(const TuneSpace& space) {
  Begin(space);
  if (!stopped_) TryValues(space);
  if (!stopped_) TryTogether();
  Decide();
  result_.interrupted = stopped_;
  if (result_.best == SpeedSettings()) result_.after = result_.before;
  return std::move(result_);
}

}  // namespace ringfeed::tools
