#include "tests/gpu/feed/feed_scenario.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

namespace ringfeed {
namespace {

class Runner {
 public:
  explicit Runner(const FeedScenario& scenario)
      : scenario_(scenario), devices_(EmulatedDevices::Open(scenario.devices)) {}

  FeedOutcome Run() {
    auto supply = std::make_unique<NumberedSupply>(scenario_.supply, devices_);
    NumberedSupply* const numbered = supply.get();
    const auto out = numbered->out_counter();
    FeedOptions options = scenario_.feed;
    options.backend = devices_;
    options.devices.resize(scenario_.devices.devices.size());
    std::iota(options.devices.begin(), options.devices.end(), 0);
    scenario_.fill_in(&options);
    try {
      FeedDriveOptions test = scenario_.test;
      test.act_as = [this](int actor) { devices_->SetActor(actor); };
      core_ = FeedCore::Start(std::move(supply), options, test);
      Train(options.devices);
    } catch (const Error& error) {
      outcome_.status = error.status();
    }
    Finish();
    outcome_.batches_out = *out;
    return std::move(outcome_);
  }

 private:
  void Train(const std::vector<int>& devices) {
    for (const int device : devices) {
      loops_.push_back(std::make_unique<TrainingLoop>(
          devices_, device,
          TrainingLoop::Options{.step_ns = scenario_.step_ns, .while_waiting = [this] {
                                  if (core_ != nullptr) core_->Pump();
                                }}));
    }
    devices_->SetHotPath(true);
    DeviceLease lease;
    for (std::uint64_t batch = 0; batch < scenario_.stop_after; ++batch) {
      outcome_.end = core_->TryNext(&lease, &outcome_.status);
      if (outcome_.end != ReadResult::kRecord || !Use(&lease)) break;
    }
    devices_->SetHotPath(false);
    devices_->SetSteadyState(false);
    if (steady_) outcome_.steady = Since(devices_->Counters());
  }

  bool Use(DeviceLease* lease) {
    const std::uint64_t number = lease->number();
    if (scenario_.steady_from > 0 && number == scenario_.steady_from) {
      devices_->SetSteadyState(true);
      before_ = devices_->Counters();
      steady_ = true;
    }
    if (scenario_.unused_every > 0 && number % scenario_.unused_every == 0) {
      outcome_.unused.push_back(number);
      lease->Release();
      return true;
    }
    TrainingLoop& loop = *loops_[lease->device_index()];
    const bool good =
        (!scenario_.looks_from_host || loop.Look(lease)) && loop.Step(std::move(*lease));
    if (good) return true;
    outcome_.end = ReadResult::kFailed;
    outcome_.status = loop.status();
    return false;
  }

  BackendCounters Since(BackendCounters now) const {
    now.syncs -= before_.syncs;
    now.allocations -= before_.allocations;
    return now;
  }

  void Close() {
    outcome_.closed = core_->Close();
    outcome_.stats = core_->Stats();
    core_.reset();
  }

  void Finish() {
    if (core_ != nullptr && scenario_.closed_first) Close();
    for (const auto& loop : loops_) {
      if (!loop->Finish() && outcome_.status.ok()) outcome_.status = loop->status();
      outcome_.seen.insert(outcome_.seen.end(), loop->seen().begin(), loop->seen().end());
    }
    std::sort(outcome_.seen.begin(), outcome_.seen.end(),
              [](const auto& a, const auto& b) { return a.number < b.number; });
    loops_.clear();
    if (core_ != nullptr) Close();
    for (const Offence& offence : devices_->offences()) {
      outcome_.offences.push_back(offence.ToString());
    }
    outcome_.leaks = devices_->Leaks();
    outcome_.most_held_bytes = devices_->MostHeldBytes(0);
    outcome_.virtual_ns = devices_->NowNanos();
    for (std::size_t call = 0; call < kDeviceCalls; ++call) {
      outcome_.calls[call] = devices_->CallsOf(static_cast<DeviceCall>(call));
    }
  }

  const FeedScenario& scenario_;
  const std::shared_ptr<EmulatedDevices> devices_;
  std::shared_ptr<FeedCore> core_;
  std::vector<std::unique_ptr<TrainingLoop>> loops_;
  BackendCounters before_;
  bool steady_ = false;
  FeedOutcome outcome_;
};

std::string WrongBytes(const FeedScenario& scenario, const TrainingLoop::Seen& seen) {
  const NumberedBatch batch{seen.number, scenario.supply.RowsOf(seen.number),
                            scenario.supply.ragged};
  const Instance expected = batch.Make(nullptr);
  for (std::size_t t = 0; t < seen.checksums.size(); ++t) {
    if (t >= expected.size() || seen.shapes[t] != expected[t].shape ||
        seen.dtypes[t] != expected[t].dtype) {
      continue;
    }

    if (seen.checksums[t] != ChecksumOf({expected[t].data, expected[t].bytes})) {
      return "batch " + std::to_string(seen.number) + ", tensor " + std::to_string(t) +
             " arrived with other bytes";
    }
  }
  return "";
}

}  // namespace

FeedOutcome RunScenario(const FeedScenario& scenario) { return Runner(scenario).Run(); }

std::string FeedOutcome::Wrong(const FeedScenario& scenario) const {
  if (!offences.empty()) return offences.front();
  if (end == ReadResult::kFailed) return "failed: " + status.ToString();
  if (!status.ok()) return status.ToString();
  if (!closed.ok()) return "close: " + closed.ToString();
  if (!leaks.none()) return "something leaks";
  if (batches_out != 0) return "a batch never came back";
  std::vector<std::uint64_t> numbers = unused;
  for (const auto& each : seen) {
    numbers.push_back(each.number);
    if (std::string wrong = WrongBytes(scenario, each); !wrong.empty()) return wrong;
  }
  std::sort(numbers.begin(), numbers.end());
  for (std::uint64_t n = 0; n < numbers.size(); ++n) {
    if (numbers[n] != n) return "batch " + std::to_string(n) + " is missing, or came twice";
  }
  if (scenario.stop_after > scenario.supply.batches &&
      scenario.feed.last_step == LastStep::kUneven &&
      scenario.feed.distribution == Distribution::kRoundRobin &&
      numbers.size() != scenario.supply.batches) {
    return "only " + std::to_string(numbers.size()) + " batches came";
  }
  return "";
}

}  // namespace ringfeed
