#include "tests/combinations/chain_side.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "ringfeed/devices/emulated_devices.h"
#include "tests/combinations/progress_watch.h"
#include "tests/combinations/row_decoder.h"

namespace ringfeed {

namespace {

/// Another thread, which looks ahead, or asks where the reader stands, as long as this lives. That
/// takes nothing away.
class OtherThread {
 public:
  OtherThread(const Configuration& c, const Reader& reader) {
    if (c.Is(Option::kOther, "looks")) thread_ = std::jthread(&OtherThread::Look, reader);
    if (c.Is(Option::kOther, "asks")) thread_ = std::jthread(&OtherThread::Ask, reader);
  }

 private:
  static constexpr std::chrono::microseconds kLook{300};

  static void Look(const std::stop_token& stop, Reader reader) {
    try {
      while (!stop.stop_requested()) (void)reader.TryHasNext(DeadlineAfter(kLook));
    } catch (const Error&) {
      // The consumer meets it, too.
    }
  }
  static void Ask(const std::stop_token& stop, const Reader& reader) {
    try {
      while (!stop.stop_requested()) {
        if (reader.AwaitPosition(DeadlineAfter(kLook))) (void)reader.Position();
        (void)reader.Stats();
        (void)reader.status();
        std::this_thread::sleep_for(kLook / 10);
      }
    } catch (const Error&) {
      // It has no position.
    }
  }

  std::jthread thread_;
};

/// Two threads that do in turn what they are told to, as an executor's threads do.
class TurnThreads {
 public:
  TurnThreads() {
    for (std::size_t i = 0; i < kThreads; ++i) {
      threads_.emplace_back([this, i](const std::stop_token& stop) { Work(stop, i); });
    }
  }
  void Do(const std::function<void()>& job) {
    std::unique_lock lock(mutex_);
    job_ = &job;
    at_ = (at_ + 1) % kThreads;
    changed_.notify_all();
    changed_.wait(lock, [this] { return job_ == nullptr; });
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

 private:
  static constexpr std::size_t kThreads = 2;

  void Work(const std::stop_token& stop, std::size_t own) {
    std::unique_lock lock(mutex_);
    while (changed_.wait(lock, stop, [&] { return job_ != nullptr && at_ == own; })) {
      const std::function<void()>& job = *job_;
      lock.unlock();
      std::exception_ptr failure;
      try {
        job();
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      failure_ = failure;
      job_ = nullptr;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable_any changed_;
  const std::function<void()>* job_ = nullptr;
  std::size_t at_ = 0;
  std::exception_ptr failure_;
  std::vector<std::jthread> threads_;
};

class ReaderSide final : public ChainSide {
 public:
  ReaderSide(const Configuration& c, const ChainData& data, Reader reader, bool only)
      : c_(c), data_(data), reader_(std::move(reader)), only_(only) {
    other_.emplace(c, reader_);
    if (c.Is(Option::kReader, "turns")) turns_.emplace();
  }

  ReadResult Next(TakenRead* taken, std::string* wrong) override {
    if (!turns_) return NextOne(taken, wrong);
    ReadResult result = ReadResult::kFailed;
    turns_->Do([&] { result = NextOne(taken, wrong); });
    return result;
  }

  ReadResult NextOne(TakenRead* taken, std::string* wrong) {
    if (c_.Is(Option::kRead, "blocks")) return NextBlock(taken, wrong);
    const bool peeks = c_.Is(Option::kRead, "peek");
    const bool more = !peeks || reader_.HasNext();
    if (peeks && more) (void)reader_.NextPass();
    BatchOrigin origin;
    const ReadResult result = Read(&taken->instance, &origin);
    NoteRead();
    if (!more && result == ReadResult::kRecord) *wrong = "a record comes where HasNext said none";
    if (peeks && only_ && more && result == ReadResult::kEnd)
      *wrong = "the end comes where HasNext said more";
    if (result != ReadResult::kRecord) return result;
    taken->rows.push_back({origin.batch, RowsOf(c_, data_, taken->instance, wrong)});
    CheckNoted(origin, taken->rows.back().rows, wrong);
    try {
      taken->position = reader_.Position(origin);
    } catch (const Error&) {
      taken->position.clear();
    }
    return result;
  }

  Status status() const override { return reader_.status(); }
  void Close() override { reader_.Close(); }
  void EndOther() override { other_.reset(); }
  void ReInit() override { reader_.ReInit(); }
  std::string Position() const override { return reader_.Position(); }
  void Restore(const std::string& position) override { reader_.Restore(position); }
  void SeekTo(std::uint64_t batch) override { reader_.SeekTo(batch); }
  void SkipBatches(std::uint64_t batches) override { reader_.SkipBatches(batches); }
  PipelineStats Stats() const override { return reader_.Stats(); }

 private:
  /// Whether the origin names the records that the rows are.
  void CheckNoted(const BatchOrigin& origin, Places rows, std::string* wrong) const {
    const bool files =
        c_.IsAnyOf(Option::kSource, "tfrecord rows lines examples memory recordio pointed");
    if (!c_.Is(Option::kNote, "yes") || !files || c_.Number(Option::kShare) > 1 ||
        !c_.IsAnyOf(Option::kDamage, "none payload payloads every") ||
        !c_.Is(Option::kChange, "none") || c_.Is(Option::kGather, "pack") ||
        c_.Is(Option::kRecords, "uneven")) {
      return;
    }
    std::erase_if(rows, [](std::int64_t row) { return row < 0; });
    Places noted;
    for (const RecordRange& range : origin.records) {
      const auto first = static_cast<std::int64_t>(range.file) * kFileNumbers +
                         static_cast<std::int64_t>(range.first);
      for (std::uint64_t i = 0; i < range.count; ++i) {
        noted.push_back(first + static_cast<std::int64_t>(i));
      }
    }
    if (noted == rows) return;
    *wrong = "batch " + std::to_string(origin.batch) + " says that it holds " +
             std::to_string(noted.size()) + " other records than its " +
             std::to_string(rows.size()) + " rows";
  }

  ReadResult Read(Instance* instance, BatchOrigin* origin) {
    if (c_.Is(Option::kRead, "stop")) {
      return reader_.TryReadNext(instance, {.origin = origin, .stop = stop_.get_token()});
    }
    if (!c_.Is(Option::kRead, "poll")) return reader_.TryReadNext(instance, {.origin = origin});
    while (true) {
      const ReadResult result =
          reader_.TryReadNext(instance, {.origin = origin, .deadline = Deadline{}});
      if (result != ReadResult::kTimeout) return result;
      std::this_thread::yield();
    }
  }

  ReadResult NextBlock(TakenRead* taken, std::string* wrong) {
    const ReadResult result = reader_.TryReadBlock(&taken->block);
    NoteRead();
    if (result != ReadResult::kRecord) return result;
    for (const RecordSpan& record : taken->block.records()) {
      const std::uint64_t number = next_number_++;
      if (record.damaged()) continue;
      taken->rows.push_back({number, {RecordOf(c_, data_, record.bytes(), wrong)}});
    }
    return result;
  }

  const Configuration c_;
  const ChainData& data_;
  Reader reader_;
  const bool only_;
  std::stop_source stop_;
  std::optional<OtherThread> other_;
  std::optional<TurnThreads> turns_;
};

EmulatedOptions DevicesOf(const Configuration& c) {
  EmulatedOptions options;
  const std::size_t devices =
      c.IsAnyOf(Option::kFeed, "timed one") ? 1 : (c.Is(Option::kFeed, "random") ? 3 : 2);
  options.devices.resize(devices);
  options.simulated = !c.IsAnyOf(Option::kFeed, "emu one");
  options.seed = c.Number(Option::kSeed);
  if (c.Is(Option::kFeed, "lazy")) options.policy = SchedulePolicy::kLazy;
  if (c.IsAnyOf(Option::kFeed, "random split")) options.policy = SchedulePolicy::kRandom;
  return options;
}

TransferPlan TransferOf(const Configuration& c) {
  if (c.Is(Option::kTransfer, "members")) return TransferPlan::kMembers;
  if (c.Is(Option::kTransfer, "slabs")) return TransferPlan::kSlabs;
  if (c.Is(Option::kTransfer, "direct")) return TransferPlan::kDirect;
  return c.Is(Option::kTransfer, "auto") ? TransferPlan::kAuto : TransferPlan::kBatch;
}

// What is left goes together in one chain, each by itself in another, and by the CPU after all.
TransferCosts CostsOf(const Configuration& c) {
  constexpr double kDear = TransferCosts::kMostNs;
  switch (c.Number(Option::kSeed) % 5) {
    case 2:  // 7, the usual one
      return {};
    case 0:
      return {.copy_ns_per_kib = kDear, .member_ns = kDear, .row_ns = 1};
    default:
      return {.copy_ns_per_kib = kDear, .member_ns = 1, .row_ns = 1};
  }
}

// The digest of the fields, once for each row.
Status MakeDigests(const StageCall& call) {
  const std::uint64_t digest = DigestOf(call.fields);
  for (std::size_t at = 0; at < call.outputs[0].bytes; at += sizeof(digest)) {
    std::memcpy(call.output(0) + at, &digest, sizeof(digest));
  }
  return {};
}

class FeedSide final : public ChainSide {
 public:
  FeedSide(const Configuration& c, const ChainData& data, Reader reader)
      : c_(c), data_(data), reader_(reader) {
    backend_ = EmulatedDevices::Open(DevicesOf(c));
    FeedOptions options;
    options.backend = backend_;
    options.slots = c.Is(Option::kSlots, "2") ? 2 : 3;
    if (c.Is(Option::kFeed, "split")) options.distribution = Distribution::kSplit;
    if (c.Is(Option::kFeed, "replicate")) options.distribution = Distribution::kReplicate;
    options.transfer = TransferOf(c);
    if (HasStage()) {
      options.stage = {.outputs = {{DType::kUInt64, {}}}, .on_host = MakeDigests};
    }
    if (c.Is(Option::kHostField, "first")) options.host_fields = {0};
    options.least_left_bytes = 1;
    options.costs = CostsOf(c);
    // Of one device this is only how long a thread waits that holds all batches: time and again.
    if (c.Is(Option::kFeed, "one") && c.Is(Option::kHold, "all")) options.patience_ms = 1;
    feed_ = std::make_unique<DeviceFeed>(std::move(reader), options);
    other_.emplace(c, reader_);
  }

  ReadResult Next(TakenRead* taken, std::string* wrong) override {
    const ReadResult result = Take(&taken->lease);
    NoteRead();
    if (result != ReadResult::kRecord) return result;
    taken->rows.push_back(
        {taken->lease.origin().batch, RowsOf(c_, data_, FieldsOf(&taken->lease, wrong), wrong)});
    if (c_.Is(Option::kFeed, "replicate")) CheckCopy(*taken, wrong);
    if (!backend_->offences().empty()) *wrong = backend_->offences().front().ToString();
    return result;
  }

  Status status() const override { return status_; }
  void Close() override { (void)feed_->Close(); }
  void EndOther() override { other_.reset(); }
  void ReInit() override { feed_->ReInit(); }
  std::string Position() const override { return feed_->Position(); }
  void Restore(const std::string& position) override { feed_->Restore(position); }
  void SeekTo(std::uint64_t batch) override { feed_->SeekTo(batch); }
  void SkipBatches(std::uint64_t /*batches*/) override {}
  PipelineStats Stats() const override { return reader_.Stats(); }

 private:
  static constexpr std::chrono::microseconds kShort{200};

  bool HasStage() const { return c_.Is(Option::kStage, "makes"); }
  /// The batch's own fields; the stage's is as they are.
  std::span<const Tensor> FieldsOf(DeviceLease* lease, std::string* wrong) const {
    const std::span<const Tensor> tensors = lease->WaitHost();
    if (!HasStage()) return tensors;
    const std::span<const Tensor> fields = tensors.first(tensors.size() - 1);
    const std::uint64_t digest = DigestOf(fields);
    const auto made = tensors.back().Values<std::uint64_t>();
    const bool same = made.size() == lease->rows() &&
                      std::ranges::all_of(made, [&](auto each) { return each == digest; });
    if (!same) *wrong = "the stage made something else of batch " + std::to_string(lease->number());
    return fields;
  }
  ReadResult Take(DeviceLease* lease) {
    ReadResult result = ReadResult::kTimeout;
    while (result == ReadResult::kTimeout) {
      result = c_.Is(Option::kRead, "poll") ? feed_->TryNext(lease, &status_, DeadlineAfter(kShort))
                                            : feed_->TryNext(lease, &status_);
    }
    return result;
  }
  /// The other device's copy is the same.
  void CheckCopy(const TakenRead& taken, std::string* wrong) {
    DeviceLease copy;
    if (Take(&copy) != ReadResult::kRecord) {
      *wrong = "one device alone got a batch: " + status_.ToString();
      return;
    }
    const DeliveredRows& first = taken.rows.back();
    const bool same = copy.number() == taken.lease.number() &&
                      copy.origin().batch == first.number &&
                      copy.device_index() != taken.lease.device_index() &&
                      RowsOf(c_, data_, FieldsOf(&copy, wrong), wrong) == first.rows;
    if (!same) *wrong = "the devices got different copies of batch " + std::to_string(first.number);
  }

  const Configuration c_;
  const ChainData& data_;
  const Reader reader_;
  std::shared_ptr<EmulatedDevices> backend_;
  std::unique_ptr<DeviceFeed> feed_;
  Status status_;
  std::optional<OtherThread> other_;
};

}  // namespace

std::uint64_t TakenRead::Digest() const {
  std::uint64_t sum = DigestOf(instance);
  for (const RecordSpan& record : block.records()) {
    for (const std::byte each : record.bytes()) {
      sum = (sum ^ std::to_integer<std::uint64_t>(each)) * 0x9E3779B97F4A7C15;
    }
  }
  return sum;
}

std::unique_ptr<ChainSide> MakeReaderSide(const Configuration& configuration, const ChainData& data,
                                          Reader reader, bool only) {
  return std::make_unique<ReaderSide>(configuration, data, std::move(reader), only);
}

std::unique_ptr<ChainSide> MakeFeedSide(const Configuration& configuration, const ChainData& data,
                                        Reader reader) {
  return std::make_unique<FeedSide>(configuration, data, std::move(reader));
}

}  // namespace ringfeed
