#include "tools/feed/device_feed_run.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/machine/thread_start.h"
#include "base/user_call.h"
#include "gpu/feed/batch_supply.h"
#include "readers/chain/unsettled_batch.h"
#include "ringfeed/devices/emulated_devices.h"
#include "tools/feed/device_deliveries.h"
#include "tools/feed/device_loop.h"

namespace ringfeed::tools {
namespace {

/// An unsettled batch; its rows are expected after it is known which of them are left.
class WatchedUnsettled final : public UnsettledBatch {
 public:
  WatchedUnsettled(std::shared_ptr<UnsettledBatch> inner, std::vector<std::uint64_t> row_digests,
                   DeviceDeliveries* deliveries)
      : inner_(std::move(inner)), row_digests_(std::move(row_digests)), deliveries_(deliveries) {}

  std::span<const PendingSum> sums() const override { return inner_->sums(); }
  bool IsShownEmpty() const override { return inner_->IsShownEmpty(); }
  SettledBatch Settle(std::span<const std::uint32_t> bad) override {
    SettledBatch settled = inner_->Settle(bad);
    if (settled.kind == SettledBatch::Kind::kWhole) deliveries_->Expect(row_digests_);
    if (settled.kind == SettledBatch::Kind::kOther) {
      deliveries_->Expect(RowDigests(settled.tensors));
    }
    return settled;
  }

 private:
  const std::shared_ptr<UnsettledBatch> inner_;
  const std::vector<std::uint64_t> row_digests_;  ///< as it was taken
  DeviceDeliveries* const deliveries_;
};

/// A supply that reports its rows, one by one, to the object that compares them with the arrivals.
class WatchedSupply final : public BatchSupply {
 public:
  /// `deliveries` outlives this.
  WatchedSupply(std::unique_ptr<BatchSupply> inner, DeviceDeliveries* deliveries)
      : inner_(std::move(inner)), deliveries_(deliveries) {}

  SupplyResult Take(SuppliedBatch* batch, Status* status, const std::stop_token& stop) override {
    const SupplyResult result = inner_->Take(batch, status, stop);
    if (result != SupplyResult::kBatch) return result;
    // The device still takes pending bytes from the memory they were read into.
    *status = MakeCopies(batch->pending);
    if (!status->ok()) return SupplyResult::kFailed;
    std::vector<std::uint64_t> row_digests = RowDigests(batch->tensors);
    if (batch->unsettled == nullptr) {
      deliveries_->Expect(row_digests);
      return result;
    }
    // A feed settles batches in their order, as it takes them.
    batch->unsettled = std::make_shared<WatchedUnsettled>(std::move(batch->unsettled),
                                                          std::move(row_digests), deliveries_);
    return result;
  }
  void ReInit() override { inner_->ReInit(); }
  void Close() override { inner_->Close(); }
  Rows rows() const override { return inner_->rows(); }
  Reader reader() const override { return inner_->reader(); }
  std::shared_ptr<CuFileReads> direct() const override { return inner_->direct(); }

 private:
  const std::unique_ptr<BatchSupply> inner_;
  DeviceDeliveries* const deliveries_;
};

constexpr std::int64_t kPatienceMs = 30'000;

std::int64_t StepNanos(const DeviceOptions& options) { return std::llround(options.step_ms * 1e6); }

// One batch may hold rows of two passes if the last batches are spread anew.
DeviceDeliveries::Options DeliveriesOptions(const FeedPlan& plan, const DeviceOptions& options,
                                            bool verify) {
  return {.hashes = plan.hash != PayloadHash::kNone,
          .compare = verify,
          .row_by_row = verify && options.last_step == LastStep::kShort};
}

// How far CLOCK_REALTIME is ahead of the devices' clock: the shortest of several tries.
std::int64_t RealtimeOffsetNanos(const DeviceBackend& backend) {
  constexpr int kTries = 8;
  std::int64_t shortest_ns = std::numeric_limits<std::int64_t>::max();
  std::int64_t offset_ns = 0;
  for (int i = 0; i < kTries; ++i) {
    const std::int64_t before_ns = backend.NowNanos();
    const auto realtime = std::chrono::system_clock::now().time_since_epoch();
    const std::int64_t took_ns = backend.NowNanos() - before_ns;
    if (took_ns >= shortest_ns) continue;
    shortest_ns = took_ns;
    offset_ns = std::chrono::nanoseconds(realtime).count() - before_ns - took_ns / 2;
  }
  return offset_ns;
}

std::string HostName() {
  std::array<char, 65> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

bool IsCancelled(const Status& status) { return status.code() == StatusCode::kCancelled; }

}  // namespace

DeviceFeedRun::DeviceFeedRun(const FeedPlan& plan, const DeviceOptions& options, bool verify)
    : FeedRun(plan, verify),
      options_(options),
      verify_(verify),
      chosen_(ChooseDevices(options.devices)),
      deliveries_(&ledger_, DeliveriesOptions(plan, options, verify)) {}

DeviceFeedRun::~DeviceFeedRun() {
  if (feed_ != nullptr) (void)feed_->Close();
}

FeedOptions DeviceFeedRun::FeedOptionsOf() const {
  // A device with a long step is not starved.
  const auto steps_ms = static_cast<std::int64_t>(4 * options_.step_ms);
  FeedOptions feed;
  feed.backend = chosen_.backend;
  feed.devices = chosen_.numbers;
  feed.slots = options_.slots;
  feed.distribution = options_.distribution;
  feed.last_step = options_.last_step;
  feed.transfer = options_.transfer;
  feed.costs = options_.costs;
  feed.tuned_devices = options_.tuned_devices;
  feed.patience_ms = kPatienceMs + steps_ms;
  feed.close_timeout_ms += steps_ms;
  feed.timeline = timeline_;
  return feed;
}

bool DeviceFeedRun::StartFeed() {
  const FeedOptions feed = FeedOptionsOf();
  CheckFeedOptions(feed);
  std::unique_ptr<BatchSupply> supply = SupplyOf(reader_, feed);
  if (verify_) supply = std::make_unique<WatchedSupply>(std::move(supply), &deliveries_);
  const std::lock_guard lock(mutex_);
  if (!stopped_) feed_ = FeedCore::Start(std::move(supply), feed);
  return !stopped_;
}

void DeviceFeedRun::Stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  if (feed_ != nullptr) (void)feed_->Close();
}

void DeviceFeedRun::MakeLoops(const DeviceLoop::Deliver& deliver) {
  const std::vector<int>& devices = feed_->options().devices;
  for (std::size_t lane = 0; lane < devices.size(); ++lane) {
    DeviceLoop::Options loop;
    loop.device = devices[lane];
    loop.lane = lane;
    loop.step_ns = StepNanos(options_);
    if (plan_.hash != PayloadHash::kNone) loop.copy_back = CopyBack::kHashes;
    if (verify_ || plan_.hash_arrived) loop.copy_back = CopyBack::kEverything;
    if (plan_.hash_arrived) {
      loop.hash = plan_.hash;
      loop.hashed_fields = FieldsOfWholeRecords(plan_);
    }
    // Every device gets every replicated batch, and each counts once.
    const bool counts = lane == 0 || options_.distribution != Distribution::kReplicate;
    loops_.push_back(std::make_unique<DeviceLoop>(
        feed_.get(), timeline_.get(), loop, counts ? deliver : DeviceLoop::Deliver([](auto&&) {})));
  }
}

Status DeviceFeedRun::RunLoops(const FeedProgress& progress) {
  std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  Status first;
  std::size_t ended = 0;  // loops
  bool over = false;      // all others are to end too
  const auto note = [&](const Status& status, bool ends_all, std::size_t loops) {
    const std::lock_guard lock(mutex);
    if (!status.ok() && (first.ok() || IsCancelled(first))) first = status;
    over = over || ends_all;
    ended += loops;
    changed.notify_one();
  };
  MakeLoops([&](DeviceDelivery delivery) {
    if (!deliveries_.Add(std::move(delivery), progress)) note(Status(), true, 0);
  });
  std::vector<std::jthread> threads;
  for (const auto& loop : loops_) {
    try {
      threads.push_back(StartThread("a loop's thread", [&, loop = loop.get()] {
        const Status status = loop->Run();
        // The other loops would wait for a device that failed to take its batches.
        note(status, !status.ok() && !loop->feed_ended(), 1);
      }));
    } catch (...) {
      note(StatusOfThrown("the loops cannot start"), true, 0);
      break;
    }
  }
  bool closes = false;
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return over || ended == loops_.size(); });
    closes = over;
  }
  // Close waits for the loops, so none of them may call it.
  if (closes) (void)feed_->Close();
  threads.clear();
  return first;
}

void DeviceFeedRun::ReportDevices() {
  const FeedStats stats = feed_->Stats();
  const std::vector<TimeSpan> spans = timeline_->spans();
  for (std::size_t lane = 0; lane < loops_.size(); ++lane) {
    report_.devices.push_back({stats.devices[lane], loops_[lane]->times(),
                               CopyOverlap(spans, static_cast<int>(lane)),
                               loops_[lane]->copied_back()});
  }
  report_.dropped_rows = stats.dropped_rows;
  report_.repeated_rows = stats.repeated_rows;
  report_.pinning = stats.pinning;
  const auto* const emulated = dynamic_cast<const EmulatedDevices*>(chosen_.backend.get());
  if (emulated == nullptr) return;
  report_.hazards.emplace();
  for (const Offence& offence : emulated->offences()) {
    report_.hazards->push_back(offence.ToString());
  }
}

TimelineOrigin DeviceFeedRun::timeline_origin() const {
  const Rank& rank = plan_.batching.rank;
  return {.host = HostName(),
          .rank = static_cast<std::uint64_t>(std::max(rank.rank, 0)),
          .ranks = static_cast<std::uint64_t>(std::max(rank.world_size, 1)),
          .realtime_offset_ns = realtime_offset_ns_};
}

double DeviceFeedRun::FirstBatchSeconds(std::int64_t start_ns) const {
  std::int64_t first_ns = 0;
  for (const auto& loop : loops_) {
    const std::int64_t ready_ns = loop->times().first_ready_ns;
    if (ready_ns > 0 && (first_ns == 0 || ready_ns < first_ns)) first_ns = ready_ns;
  }
  return first_ns == 0 ? 0 : static_cast<double>(first_ns - start_ns) / 1e9;
}

void DeviceFeedRun::Deliver(const FeedProgress& progress, FeedResult* result) {
  report_.kind = chosen_.backend->name();
  report_.reason = chosen_.reason;
  const std::int64_t start_ns = chosen_.backend->NowNanos();
  realtime_offset_ns_ = RealtimeOffsetNanos(*chosen_.backend);
  result->interrupted = !StartFeed();
  if (result->interrupted) return;
  result->status = RunLoops(progress);
  result->first_batch_s = FirstBatchSeconds(start_ns);
}

void DeviceFeedRun::Finish(FeedResult* result) {
  result->no_position = "--devices hands batches on";
  if (feed_ == nullptr) return;  // it was stopped before
  result->batches = deliveries_.batches();
  const Status closed = feed_->Close();
  if (result->status.ok()) result->status = closed;
  ReportDevices();
  if (!verify_) return;
  report_.difference = deliveries_.Difference(result->status.ok() && !result->interrupted);
}

}  // namespace ringfeed::tools
