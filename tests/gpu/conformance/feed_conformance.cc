#include "tests/gpu/conformance/feed_conformance.h"

#include <array>
#include <atomic>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "base/memory/arena.h"
#include "ringfeed/decorators.h"
#include "ringfeed/formats.h"
#include "ringfeed/parsers.h"
#include "ringfeed/reader.h"
#include "ringfeed/tensor.h"
#include "tests/support/pattern_file.h"

namespace ringfeed {
namespace {

constexpr std::size_t kBytesOfRow = 4099;  // no multiple of anything
constexpr std::int64_t kOddBytes = 13;
constexpr std::int64_t kOddFloats = 13;

/// Rows of bytes that know their number, and 13 floats beside 13 bytes: odd in size.
class PatternRows final : public InstanceSource {
 public:
  PatternRows(std::int64_t rows, bool odd) : rows_(rows), odd_(odd) {}

  ReadResult ReadNext(Instance* instance, std::stop_token, Status* status) override {
    if (next_ == rows_) return ReadResult::kEnd;
    if (next_ == fail_at_) {
      *status = Status(StatusCode::kDamaged, "planted");
      return ReadResult::kFailed;
    }
    *instance = odd_ ? OddRow(next_) : Instance{Bytes(next_, kBytesOfRow)};
    ++next_;
    return ReadResult::kRecord;
  }
  bool ReInit() override {
    next_ = 0;
    return true;
  }
  bool Ready() const override { return true; }
  void FailAt(std::int64_t row) { fail_at_ = row; }

  static std::vector<std::uint8_t> RowBytes(std::int64_t row, std::size_t bytes) {
    std::vector<std::uint8_t> values(bytes);
    for (std::size_t i = 0; i < bytes; ++i) {
      values[i] = static_cast<std::uint8_t>(PatternByte(i, static_cast<std::uint64_t>(row)));
    }
    return values;
  }

 private:
  static Tensor Bytes(std::int64_t row, std::size_t bytes) {
    return MakeTensor(RowBytes(row, bytes));
  }
  static Instance OddRow(std::int64_t row) {
    return {Bytes(row, kOddBytes),
            MakeTensor(std::vector<float>(kOddFloats, static_cast<float>(row)))};
  }

  const std::int64_t rows_;
  const bool odd_;
  std::int64_t fail_at_ = -1;
  std::int64_t next_ = 0;
};

Reader Batches(std::int64_t rows, std::size_t size, std::int64_t fail_at = -1) {
  auto source = std::make_unique<PatternRows>(rows, false);
  source->FailAt(fail_at);
  return Batch(
      FromInstanceSource(std::move(source),
                         {{"bytes", DType::kUInt8, {static_cast<std::int64_t>(kBytesOfRow)}}}),
      {.size = size});
}

Reader OddBatches(std::int64_t rows, std::size_t size) {
  return Batch(FromInstanceSource(std::make_unique<PatternRows>(rows, true),
                                  {{"bytes", DType::kUInt8, {kOddBytes}},
                                   {"floats", DType::kFloat32, {kOddFloats}}}),
               {.size = size});
}

// What the device's checksum of each batch must be.
std::vector<std::uint64_t> SumsOf(std::int64_t rows, std::size_t size) {
  std::vector<std::uint64_t> sums;
  std::vector<std::uint8_t> batch;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::vector<std::uint8_t> bytes = PatternRows::RowBytes(row, kBytesOfRow);
    batch.insert(batch.end(), bytes.begin(), bytes.end());
    const bool last = row + 1 == rows || (row + 1) % static_cast<std::int64_t>(size) == 0;
    if (!last) continue;
    std::uint64_t sum = 0;
    RunKernelOnHost(Checksum{std::as_bytes(std::span(batch)).data(), batch.size(), &sum});
    sums.push_back(sum);
    batch.clear();
  }
  return sums;
}

}  // namespace

FeedOptions FeedConformance::OnOneDevice() {
  FeedOptions options;
  options.backend = shared_backend();
  options.devices = {0};
  return options;
}

std::shared_ptr<DeviceBackend> FeedConformance::OpenAnother() {
  std::string why_not;
  return GetParam().open(&why_not);
}

std::vector<std::uint64_t> FeedConformance::Train(DeviceFeed* feed, std::size_t most,
                                                  std::int64_t busy_ns) {
  DeviceBackend& devices = *feed->backend();
  DeviceStream stream;
  std::byte* sums = nullptr;
  EXPECT_TRUE(Ok(devices.BindThread(0)));
  EXPECT_TRUE(Ok(devices.CreateStream(0, StreamPriority::kNormal, &stream)));
  EXPECT_TRUE(Ok(devices.AllocDevice(0, most * sizeof(std::uint64_t), &sums)));
  std::size_t taken = 0;
  for (; taken < most; ++taken) {
    std::optional<DeviceLease> lease = feed->Next();
    if (!lease) break;
    EXPECT_EQ(lease->number(), taken);
    const Tensor& tensor = lease->On(stream).front();
    if (busy_ns > 0) {
      EXPECT_TRUE(Ok(devices.Busy(stream, busy_ns)));
    }
    EXPECT_TRUE(
        Ok(devices.Launch(stream, Checksum{tensor.data, tensor.bytes,
                                           reinterpret_cast<std::uint64_t*>(sums) + taken})));
  }
  std::vector<std::uint64_t> seen(taken);
  const auto bytes = std::as_writable_bytes(std::span(seen));
  if (taken > 0) {
    EXPECT_TRUE(Ok(devices.CopyToHost(stream, bytes.data(), sums, bytes.size())));
  }
  EXPECT_TRUE(Ok(devices.SyncStream(stream)));
  devices.NoteHostRead(bytes.data(), bytes.size(), "checksums");
  EXPECT_TRUE(Ok(devices.FreeDevice(0, sums)));
  EXPECT_TRUE(Ok(devices.DestroyStream(stream)));
  return seen;
}

namespace {

TEST_P(FeedConformance, EveryBatchArrivesAsItWasReadInOrderAndOnce) {
  DeviceFeed feed(Batches(1000, 32), OnOneDevice());
  EXPECT_EQ(Train(&feed, 1000), SumsOf(1000, 32));
  EXPECT_EQ(feed.Stats().pinning, "");
  EXPECT_EQ(feed.Stats().devices[0].unpinned_bytes, 0U);
  EXPECT_TRUE(Ok(feed.Close()));
}

TEST_P(FeedConformance, NoSlotIsWrittenBeforeItsConsumersAreDone) {
  for (const std::size_t slots : {2U, 3U, 8U}) {
    FeedOptions options = OnOneDevice();
    options.slots = slots;
    DeviceFeed feed(Batches(640, 32), options);
    EXPECT_EQ(Train(&feed, 100, 2'000'000), SumsOf(640, 32)) << slots << " slots";
    EXPECT_TRUE(Ok(feed.Close()));
  }
}

TEST_P(FeedConformance, AFeedStartsAgainFromAnywhere) {
  DeviceFeed feed(Batches(320, 32), OnOneDevice());
  const std::vector<std::uint64_t> all = SumsOf(320, 32);
  for (const std::size_t taken : {1U, 4U, 10U}) {
    const std::vector<std::uint64_t> first(all.begin(),
                                           all.begin() + static_cast<std::ptrdiff_t>(taken));
    EXPECT_EQ(Train(&feed, taken), first);
    feed.ReInit();
  }
  EXPECT_EQ(Train(&feed, 100), all);
}

TEST_P(FeedConformance, AFailureComesAfterEverythingGood) {
  DeviceFeed feed(Batches(640, 32, 320), OnOneDevice());
  EXPECT_EQ(Train(&feed, 10), SumsOf(320, 32));
  DeviceLease lease;
  Status status;
  EXPECT_EQ(feed.TryNext(&lease, &status), ReadResult::kFailed);
  EXPECT_TRUE(FailsWith(StatusCode::kDamaged, status));
}

TEST_P(FeedConformance, ClosingInTheMiddleGivesEverythingBack) {
  for (const std::size_t taken : {1U, 2U, 7U}) {
    DeviceFeed feed(Batches(3200, 32), OnOneDevice());
    EXPECT_EQ(Train(&feed, taken, 1'000'000).size(), taken);
    EXPECT_TRUE(Ok(feed.Close()));
  }
}

TEST_P(FeedConformance, FieldsOfOddSizesBeginWhereEveryTypeMay) {
  DeviceFeed feed(OddBatches(500, 50), OnOneDevice());
  const DeviceStream stream = NewStream();
  std::size_t batches = 0;
  while (auto lease = feed.Next()) {
    for (const Tensor& tensor : lease->On(stream)) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data) % 256, 0U) << "batch " << batches;
    }
    ++batches;
  }
  EXPECT_EQ(batches, 10U);
}

TEST_P(FeedConformance, PartsOfABatchBeginWhereEveryTypeMay) {
  if (!HasDevices(2)) GTEST_SKIP() << "one device";
  FeedOptions options = OnOneDevice();
  options.devices = {0, 1};
  options.distribution = Distribution::kSplit;
  DeviceFeed feed(OddBatches(500, 50), options);
  const std::array<DeviceStream, 2> streams = {NewStream(0), NewStream(1)};
  while (auto lease = feed.Next()) {
    for (const Tensor& tensor : lease->On(streams[lease->device_index()])) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data) % 256, 0U)
          << "batch " << lease->number() << " on device " << lease->device();
    }
  }
}

TEST_P(FeedConformance, EveryDeviceOfAGroupGetsTheSameBatches) {
  if (!HasDevices(2)) GTEST_SKIP() << "one device";
  FeedOptions options = OnOneDevice();
  options.devices = {0, 1};
  options.distribution = Distribution::kReplicate;
  DeviceFeed feed(Batches(320, 32), options);
  const std::vector<std::uint64_t> all = SumsOf(320, 32);
  for (std::uint64_t taken = 0; taken < 20; ++taken) {
    std::optional<DeviceLease> lease = feed.Next();
    ASSERT_TRUE(lease);
    EXPECT_EQ(lease->number(), taken / 2);
    EXPECT_EQ(lease->device_index(), taken % 2);
    const DeviceStream stream = NewStream(lease->device());
    const Tensor& tensor = lease->On(stream).front();
    const std::vector<std::byte> bytes = ReadBack(stream, tensor.data, tensor.bytes);
    std::uint64_t sum = 0;
    RunKernelOnHost(Checksum{bytes.data(), bytes.size(), &sum});
    EXPECT_EQ(sum, all[lease->number()]) << "on device " << lease->device();
    lease->Release();
    Destroy(stream);
  }
  EXPECT_FALSE(feed.Next());
  EXPECT_TRUE(Ok(feed.Close()));
}

/// Records of 20 KB, of which one is damaged in its middle.
std::string OneOfThemDamaged(const TempDir& folder, std::int64_t records, std::int64_t damaged) {
  const std::string path = folder.File("damaged.tfrecord");
  RecordWriterResult made = OpenRecordWriter(path, "tfrecord");
  EXPECT_TRUE(made.status.ok()) << made.status.ToString();
  std::size_t at = 0;
  std::size_t middle = 0;
  ExampleBuilder builder;
  for (std::int64_t i = 0; i < records; ++i) {
    const std::vector<std::uint8_t> image = PatternRows::RowBytes(i, 20'000);
    const auto record = builder.AddBytes("image", std::as_bytes(std::span(image))).Finish();
    if (i == damaged) middle = at + record.size() / 2;
    at += record.size() + 16;
    EXPECT_TRUE(made.writer->Write(record).ok());
  }
  EXPECT_TRUE(made.writer->Close().ok());
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(middle));
  const int byte = file.get();
  file.seekp(static_cast<std::streamoff>(middle));
  file.put(static_cast<char>(byte ^ 1));
  return path;
}

// Each of two devices finds what is damaged of its batches, as the CPU would.
TEST_P(FeedConformance, ADamagedRecordIsFoundByTheDeviceThatHasIt) {
  if (!HasDevices(2)) GTEST_SKIP() << "one device";
  const TempDir folder;
  const std::string path = OneOfThemDamaged(folder, 120, 105);
  for (const OnDamage on_damage : {OnDamage::kSkip, OnDamage::kFail}) {
    std::vector<std::string> seen;
    for (const TransferPlan transfer : {TransferPlan::kBatch, TransferPlan::kSlabs}) {
      FeedOptions options = OnOneDevice();
      options.devices = {0, 1};
      options.transfer = transfer;
      OpenOptions open;
      open.on_damage = on_damage;
      open.io.path = IoPath::kPread;
      DeviceFeed feed(
          Batch(Parse(OpenFiles({path}, open), ExampleParser({{"image", DType::kUInt8, {20'000}}})),
                {.size = 4}),
          options);
      std::string& all = seen.emplace_back();
      DeviceLease lease;
      Status status;
      while (feed.TryNext(&lease, &status) == ReadResult::kRecord) {
        const DeviceStream stream = NewStream(lease.device());
        const Tensor& tensor = lease.On(stream).front();
        const std::vector<std::byte> bytes = ReadBack(stream, tensor.data, tensor.bytes);
        all += std::to_string(lease.number()) + " on " + std::to_string(lease.device()) + ": ";
        all.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        lease.Release();
        Destroy(stream);
      }
      all += status.ToString();
      EXPECT_TRUE(Ok(feed.Close()));
    }
    EXPECT_TRUE(seen[0] == seen[1]) << static_cast<int>(on_damage);
  }
}

// At its end, at a failure, closed in the middle, with a lease that outlives it, grown or not.
TEST_P(FeedConformance, SlotsInMemoryOfTheProgramsAllGoBackToIt) {
  for (const std::size_t slot_bytes : {0U, 1000U, 1U << 20}) {
    for (const std::size_t taken : {1U, 2U, 7U}) {
      std::atomic<std::size_t> allocated = 0;
      std::atomic<std::size_t> freed = 0;
      FeedOptions options = OnOneDevice();
      options.slot_bytes = slot_bytes;
      options.slot_allocator = {
          [&](int device, std::size_t bytes, DeviceStream stream, std::byte** data) {
            EXPECT_TRUE(stream);
            ++allocated;
            return backend().AllocDevice(device, bytes, data);
          },
          [&](int device, std::byte* data, std::size_t, DeviceStream) {
            ++freed;
            return backend().FreeDevice(device, data);
          }};
      std::optional<DeviceLease> kept;
      {
        DeviceFeed feed(Batches(320, 32, 7 * 32), options);
        if (slot_bytes == 1U << 20) {
          EXPECT_EQ(allocated, options.slots) << "before the first batch";
        }
        kept = feed.Next();
        for (std::size_t k = 1; k < taken; ++k) (void)feed.Next()->WaitHost();
        if (taken == 7) {
          EXPECT_THROW((void)feed.Next(), Error);
        }
        EXPECT_TRUE(Ok(feed.Close()));
        EXPECT_EQ(allocated - freed, 1U) << "of the lease";
      }
      kept.reset();
      EXPECT_EQ(allocated, freed) << slot_bytes << " bytes, " << taken << " taken";
      EXPECT_GE(allocated, 1U);
    }
  }
}

// A reader's memory is the process's: two libraries in it may each have a feed over it.
TEST_P(FeedConformance, TwoFeedsOfTwoBackendsPinOneMemory) {
  const std::shared_ptr<DeviceBackend> another = OpenAnother();
  ASSERT_NE(another, nullptr);
  const std::vector<std::uint64_t> all = SumsOf(640, 32);
  DeviceFeed stays(Batches(640, 32), OnOneDevice());
  EXPECT_EQ(Train(&stays, 5).size(), 5U);
  {
    FeedOptions options = OnOneDevice();
    options.backend = another;
    DeviceFeed goes(Batches(640, 32), options);
    EXPECT_EQ(Train(&goes, 100), all);
    EXPECT_EQ(goes.Stats().pinning, "");
    EXPECT_EQ(goes.Stats().devices[0].unpinned_bytes, 0U);
  }
  while (auto lease = stays.Next()) {
    EXPECT_NO_THROW((void)lease->WaitHost());
  }
  EXPECT_EQ(stays.Stats().pinning, "");
  EXPECT_EQ(stays.Stats().devices[0].unpinned_bytes, 0U);
  stays.ReInit();
  EXPECT_EQ(Train(&stays, 100), all);
}

// Each opens the devices for itself, as two libraries of a program do.
TEST_P(FeedConformance, AFeedGoesOnWhenTheOneThatPinnedItsMemoryFirstCloses) {
  const std::shared_ptr<DeviceBackend> another = OpenAnother();
  ASSERT_NE(another, nullptr);
  const std::vector<std::uint64_t> all = SumsOf(640, 32);
  auto first = std::make_unique<DeviceFeed>(Batches(640, 32), OnOneDevice());
  EXPECT_EQ(Train(first.get(), 5).size(), 5U);
  FeedOptions options = OnOneDevice();
  options.backend = another;
  DeviceFeed second(Batches(640, 32), options);
  EXPECT_EQ(Train(&second, 5).size(), 5U);
  EXPECT_TRUE(Ok(first->Close()));
  first.reset();
  second.ReInit();
  EXPECT_EQ(Train(&second, 100), all);
  EXPECT_EQ(second.Stats().pinning, "");
  EXPECT_EQ(second.Stats().devices[0].unpinned_bytes, 0U);
  EXPECT_TRUE(Ok(second.Close()));
  if (!GetParam().complaints || another == shared_backend()) return;
  for (const std::string& complaint : GetParam().complaints(*another, false)) {
    ADD_FAILURE() << complaint;
  }
}

TEST_P(ThreadedFeedConformance, FeedsOfSeveralThreadsShareADevice) {
  const std::vector<std::uint64_t> all = SumsOf(640, 32);
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      ASSERT_TRUE(Ok(backend().BindThread(0)));
      for (int pass = 0; pass < 3; ++pass) {
        DeviceFeed feed(Batches(640, 32), OnOneDevice());
        EXPECT_EQ(Train(&feed, 100, 100'000), all);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace ringfeed
