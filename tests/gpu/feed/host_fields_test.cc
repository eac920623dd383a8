#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/memory/arena.h"
#include "ringfeed/decorators.h"
#include "ringfeed/device_feed.h"
#include "ringfeed/devices/emulated_devices.h"
#include "ringfeed/tensor.h"

// Fields that stay in host memory for the life of their lease: encoded images, for a decoder that
// takes pointers and lengths of the host's.

namespace ringfeed {
namespace {

constexpr std::int64_t kImages = 500;
constexpr std::size_t kBatch = 8;

std::size_t BytesOf(std::int64_t image) { return 1000 + static_cast<std::size_t>(image % 97); }
std::uint8_t ByteOf(std::int64_t image) { return static_cast<std::uint8_t>(image % 251); }

/// A number, the bytes of an image of any length, and a few tokens.
class Images final : public InstanceSource {
 public:
  ReadResult ReadNext(Instance* instance, std::stop_token, Status*) override {
    if (next_ == kImages) return ReadResult::kEnd;
    *instance = {MakeScalar(next_),
                 MakeTensor(std::vector<std::uint8_t>(BytesOf(next_), ByteOf(next_))),
                 MakeTensor(std::vector<std::uint16_t>(static_cast<std::size_t>(next_ % 4), 7))};
    ++next_;
    return ReadResult::kRecord;
  }
  bool ReInit() override { return next_ = 0, true; }
  bool Ready() const override { return true; }

 private:
  std::int64_t next_ = 0;
};

Reader Batches() {
  return Batch(FromInstanceSource(std::make_unique<Images>(), {{"number", DType::kInt64, {}},
                                                               {"image", DType::kUInt8, {-1}},
                                                               {"tokens", DType::kUInt16, {-1}}}),
               {.size = kBatch});
}

FeedOptions OnHost(std::size_t devices = 1) {
  FeedOptions options;
  options.backend = EmulatedDevices::Open(static_cast<int>(devices));
  options.host_fields = {1};
  return options;
}

/// The images of a lease are those of its numbers.
void ExpectImages(DeviceLease* lease) {
  const auto tensors = lease->WaitHost();
  const auto numbers = tensors[0].Values<std::int64_t>();
  const Tensor& images = tensors[1];
  ASSERT_EQ(images.place, Place());
  ASSERT_EQ(images.lod.size(), 1U);
  ASSERT_EQ(images.lod[0].size(), numbers.size() + 1);
  EXPECT_EQ(lease->DeviceOffsets(1), nullptr);
  EXPECT_NE(lease->DeviceOffsets(2), nullptr);
  EXPECT_NE(Arena::Containing(images.data), nullptr) << "pinned";
  for (std::size_t row = 0; row < numbers.size(); ++row) {
    const auto begin = static_cast<std::size_t>(images.lod[0][row]);
    const auto end = static_cast<std::size_t>(images.lod[0][row + 1]);
    ASSERT_EQ(end - begin, BytesOf(numbers[row]));
    for (std::size_t at = begin; at < end; ++at) {
      ASSERT_EQ(images.data[at], std::byte{ByteOf(numbers[row])}) << "image " << numbers[row];
    }
  }
}

std::shared_ptr<EmulatedDevices> Emulated(const FeedOptions& options) {
  return std::dynamic_pointer_cast<EmulatedDevices>(options.backend);
}

TEST(HostFieldsTest, StayForTheLifeOfTheirLease) {
  for (const Distribution distribution :
       {Distribution::kRoundRobin, Distribution::kSplit, Distribution::kReplicate}) {
    for (const bool fixed_slots : {false, true}) {
      FeedOptions options = OnHost(2);
      options.distribution = distribution;
      options.fixed_slots = fixed_slots;
      options.slot_bytes = 4096;
      DeviceFeed feed(Batches(), options);
      std::int64_t rows = 0;
      std::vector<DeviceLease> held;
      while (auto lease = feed.Next()) {
        rows += static_cast<std::int64_t>(lease->rows());
        held.push_back(std::move(*lease));
        if (held.size() < 4) continue;  // two of each device's three
        ExpectImages(&held.front());
        held.erase(held.begin());
      }
      for (DeviceLease& lease : held) ExpectImages(&lease);
      EXPECT_EQ(rows, kImages * (distribution == Distribution::kReplicate ? 2 : 1));
      const DeviceFeedStats stats = feed.Stats().devices[0];
      EXPECT_LT(stats.copied_bytes, stats.delivered_bytes / 10);
      EXPECT_EQ(stats.transfer, TransferPlan::kBatch);
      EXPECT_TRUE(Emulated(options)->offences().empty());
    }
  }
}

TEST(HostFieldsTest, StayWithLeasesThatOutliveTheirFeed) {
  const FeedOptions options = OnHost();
  std::vector<DeviceLease> held;
  {
    DeviceFeed feed(Batches(), options);
    for (int i = 0; i < 2; ++i) held.push_back(std::move(*feed.Next()));
    feed.ReInit();
    ExpectImages(&held.front());
    EXPECT_TRUE(feed.Next());
    EXPECT_TRUE(feed.Close().ok());
  }
  for (DeviceLease& lease : held) ExpectImages(&lease);
  held.clear();
  EXPECT_TRUE(Emulated(options)->Leaks().none());
}

TEST(HostFieldsTest, AStageGetsTheirPointers) {
  FeedOptions options = OnHost();
  options.stage = {
      .outputs = {{DType::kUInt8, {}}}, .on_host = [](const StageCall& call) {
        EXPECT_EQ(call.fields[1].place, Place());
        EXPECT_EQ(call.offsets[1], nullptr);
        for (std::size_t row = 0; row < call.outputs[0].bytes; ++row) {
          call.output(0)[row] =
              call.fields[1].data[static_cast<std::size_t>(call.fields[1].lod[0][row])];
        }
        return Status();
      }};
  DeviceFeed feed(Batches(), options);
  while (auto lease = feed.Next()) {
    ExpectImages(&*lease);
    const auto tensors = lease->WaitHost();
    for (std::size_t row = 0; row < lease->rows(); ++row) {
      EXPECT_EQ(tensors[3].data[row], std::byte{ByteOf(tensors[0].Values<std::int64_t>()[row])});
    }
  }
}

TEST(HostFieldsTest, WhatCannotWorkIsRefusedByName) {
  const auto fails_with = [](const FeedOptions& options, const std::string& why) {
    try {
      DeviceFeed feed(Batches(), options);
      (void)feed.Next();
      ADD_FAILURE() << "taken: " << why;
    } catch (const Error& error) {
      EXPECT_EQ(error.status().code(), StatusCode::kInvalidArgument);
      EXPECT_NE(error.status().message().find(why), std::string::npos) << error.what();
    }
  };
  FeedOptions options = OnHost();
  options.transfer = TransferPlan::kMembers;
  fails_with(options, "host_fields");
  options = OnHost();
  options.transforms = {PadField{1, 100}};
  fails_with(options, "it stays on the host");
  options = OnHost();
  options.host_fields = {3};
  fails_with(options, "names field 3; there are 3");
}

}  // namespace
}  // namespace ringfeed
