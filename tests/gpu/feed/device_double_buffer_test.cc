#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ringfeed/compat/paddle_readers.h"
#include "ringfeed/compat/registry.h"
#include "ringfeed/device_feed.h"
#include "ringfeed/devices/emulated_devices.h"
#include "tests/gpu/feed/counting_rows.h"

namespace ringfeed {
namespace {

/// What a batch on the device has, brought back by the device's own copy.
std::vector<std::int64_t> RowsOf(DeviceBackend& backend, const Tensor& tensor) {
  std::vector<std::int64_t> rows(tensor.bytes / sizeof(std::int64_t));
  DeviceStream stream;
  EXPECT_TRUE(backend.CreateStream(tensor.place.device, StreamPriority::kNormal, &stream).ok());
  EXPECT_TRUE(
      backend
          .CopyToHost(stream, reinterpret_cast<std::byte*>(rows.data()), tensor.data, tensor.bytes)
          .ok());
  EXPECT_TRUE(backend.SyncStream(stream).ok());
  EXPECT_TRUE(backend.DestroyStream(stream).ok());
  return rows;
}

std::vector<std::int64_t> Numbers(std::int64_t begin, std::int64_t end) {
  std::vector<std::int64_t> numbers;
  for (std::int64_t n = begin; n < end; ++n) numbers.push_back(n);
  return numbers;
}

TEST(DeviceDoubleBufferTest, BatchesComeOnTheDeviceInOrder) {
  const auto backend = EmulatedDevices::Open(2);
  Reader reader = DoubleBufferOn(CountingBatches(100, 8), backend, 1);
  std::int64_t next = 0;
  Instance batch;
  while (reader.TryReadNext(&batch) == ReadResult::kRecord) {
    ASSERT_EQ(batch.size(), 1U);
    EXPECT_EQ(PlaceName(batch[0].place), "EMU:1");
    const std::int64_t rows = batch[0].shape[0];
    EXPECT_EQ(RowsOf(*backend, batch[0]), Numbers(next, next + rows));
    next += rows;
  }
  EXPECT_EQ(next, 100);
  EXPECT_TRUE(reader.status().ok()) << reader.status().ToString();
}

TEST(DeviceDoubleBufferTest, NothingThatWasHandedOutIsOverwritten) {
  const auto backend = EmulatedDevices::Open(1);
  constexpr std::size_t kSlots = 4;
  Reader reader = DoubleBufferOn(CountingBatches(400, 8), backend, 0, kSlots);
  std::vector<Instance> held;  // all but one of what there is
  for (std::int64_t b = 0; b < 50; ++b) {
    held.push_back(reader.ReadNext());
    if (held.size() == kSlots) held.erase(held.begin());
    for (std::size_t h = 0; h < held.size(); ++h) {
      const std::int64_t first = 8 * (b + 1 - static_cast<std::int64_t>(held.size() - h));
      ASSERT_EQ(RowsOf(*backend, held[h][0]), Numbers(first, first + 8));
    }
  }
  held.clear();
  EXPECT_FALSE(reader.HasNext());
  EXPECT_TRUE(backend->offences().empty()) << backend->offences().front().ToString();
}

TEST(DeviceDoubleBufferTest, TheEndComesAlsoWhereAllBatchesAreHeld) {
  const auto backend = EmulatedDevices::Open(1);
  Reader reader = DoubleBufferOn(CountingBatches(16, 8), backend, 0, 2);
  std::vector<Instance> held = {reader.ReadNext(), reader.ReadNext()};
  Instance none;
  const Deadline most = DeadlineAfter(std::chrono::seconds(60));
  EXPECT_EQ(reader.TryReadNext(&none, {.deadline = most}), ReadResult::kEnd);
}

TEST(DeviceDoubleBufferTest, ReInitGivesEverythingAgain) {
  const auto backend = EmulatedDevices::Open(1);
  Reader reader = DoubleBufferOn(CountingBatches(64, 8), backend, 0);
  for (int times = 0; times < 20; ++times) {
    for (std::int64_t b = 0; b < times % 9; ++b) {
      const Instance batch = reader.ReadNext();
      EXPECT_EQ(RowsOf(*backend, batch[0]), Numbers(8 * b, 8 * b + 8)) << times;
    }
    reader.ReInit();
  }
  std::int64_t batches = 0;
  for (Instance batch; reader.TryReadNext(&batch) == ReadResult::kRecord;) ++batches;
  EXPECT_EQ(batches, 8);
}

TEST(DeviceDoubleBufferTest, NothingLeaksWhereverItEnds) {
  for (int batches = 0; batches < 10; ++batches) {
    const auto backend = EmulatedDevices::Open(1);
    Instance last;
    {
      Reader reader = DoubleBufferOn(CountingBatches(64, 8), backend, 0);
      for (int b = 0; b < batches && reader.HasNext(); ++b) last = reader.ReadNext();
    }
    if (!last.empty()) {
      EXPECT_EQ(RowsOf(*backend, last[0]).size(), 8U);  // outlives its reader
    }
    last.clear();
    EXPECT_TRUE(backend->Leaks().none()) << batches;
  }
}

TEST(DeviceDoubleBufferTest, ItIsTheEndOfItsChain) {
  const Reader reader = DoubleBufferOn(CountingBatches(64, 8), EmulatedDevices::Open(1), 0);
  EXPECT_THROW(Batch(reader, {.size = 2}), Error);
  EXPECT_THROW(MultiPass(reader, 2), Error);
  EXPECT_THROW(Share(reader), Error);
}

TEST(DeviceDoubleBufferTest, WhoWouldReadItOnTheHostRefusesIt) {
  const auto buffered = [] {
    return DoubleBufferOn(CountingBatches(64, 8), EmulatedDevices::Open(1), 0);
  };
  const auto refusal = [](const auto& act) -> std::string {
    try {
      act();
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  };
  FeedOptions options;
  options.backend = EmulatedDevices::Open(1);
  const std::string of_feed = refusal([&] { const DeviceFeed feed(buffered(), options); });
  EXPECT_NE(of_feed.find("on a device already"), std::string::npos) << of_feed;
  const std::string of_another =
      refusal([&] { (void)DoubleBufferOn(buffered(), EmulatedDevices::Open(1), 0); });
  EXPECT_NE(of_another.find("chain's end"), std::string::npos) << of_another;
  const std::string of_host = refusal([&] { (void)DoubleBuffer(buffered()); });
  EXPECT_NE(of_host.find("chain's end"), std::string::npos) << of_host;
  const std::string of_function = refusal([&] {
    (void)Preprocess(buffered(), {{"number", DType::kInt64, {-1}}},
                     [](const Instance& input, Instance* output) { *output = input; });
  });
  EXPECT_NE(of_function.find("chain's end"), std::string::npos) << of_function;
}

std::string PlaceOfNext(Reader& reader) {
  const Instance batch = reader.ReadNext();
  return PlaceName(batch[0].place);
}

TEST(DeviceDoubleBufferTest, PlacesGoByPaddlesNames) {
  DoubleBufferReader by_class(CountingBatches(16, 8), Place{DeviceType::kEmulated, 1});
  EXPECT_EQ(PlaceOfNext(by_class), "EMU:1");
  Reader by_name = CreateReader("create_double_buffer_reader", {{"place", std::string("EMU:0")}},
                                {CountingBatches(16, 8)});
  EXPECT_EQ(PlaceOfNext(by_name), "EMU:0");
  Reader on_host = CreateReader("create_double_buffer_reader", {{"place", std::string("CPU")}},
                                {CountingBatches(16, 8)});
  EXPECT_EQ(PlaceOfNext(on_host), "CPU");
  EXPECT_THROW(CreateReader("create_double_buffer_reader", {{"place", std::string("TPU:0")}},
                            {CountingBatches(16, 8)}),
               Error);
}

}  // namespace
}  // namespace ringfeed
