#include "tests/gpu/conformance/backend_conformance.h"

#include <algorithm>
#include <cstring>

namespace ringfeed {
namespace {

// Of whichever clock: nothing that a test enqueues takes that long.
constexpr std::int64_t kUnreasonablyLongNs = 100'000'000'000;
constexpr std::int64_t kLookNs = 50'000;

}  // namespace

void PrintTo(const BackendUnderTest& backend, std::ostream* out) { *out << backend.name; }

std::string BackendName(const testing::TestParamInfo<BackendUnderTest>& info) {
  return info.param.name;
}

testing::AssertionResult Ok(const Status& status) {
  if (status.ok()) return testing::AssertionSuccess();
  return testing::AssertionFailure() << status.ToString();
}

testing::AssertionResult FailsWith(StatusCode code, const Status& status) {
  if (status.code() == code) return testing::AssertionSuccess();
  return testing::AssertionFailure() << status.ToString() << " instead of " << StatusCodeName(code);
}

testing::AssertionResult IsPattern(std::span<const std::byte> bytes, std::uint64_t offset,
                                   std::uint64_t seed) {
  const std::size_t at = FirstDifference(bytes, offset, seed);
  if (at == bytes.size()) return testing::AssertionSuccess();
  return testing::AssertionFailure()
         << "byte " << at << " of " << bytes.size() << " is " << static_cast<int>(bytes[at])
         << " instead of " << static_cast<int>(PatternByte(offset + at, seed));
}

testing::AssertionResult AreAll(std::span<const std::byte> bytes, std::byte value) {
  const auto other = std::find_if(bytes.begin(), bytes.end(), [=](auto b) { return b != value; });
  if (other == bytes.end()) return testing::AssertionSuccess();
  return testing::AssertionFailure()
         << "byte " << other - bytes.begin() << " of " << bytes.size() << " is "
         << static_cast<int>(*other) << " instead of " << static_cast<int>(value);
}

void BackendConformance::SetUp() {
  std::string why_not;
  backend_ = GetParam().open(&why_not);
  if (backend_ == nullptr) GTEST_SKIP() << why_not;
  ASSERT_GE(backend_->DeviceCount(), 1);
  ASSERT_TRUE(Ok(backend_->BindThread(0)));
}

void BackendConformance::TearDown() {
  if (backend_ == nullptr) return;
  GiveBackAll();
  for (int device = 0; device < backend_->DeviceCount(); ++device) {
    EXPECT_TRUE(Ok(backend_->DeviceStatus(device)));
  }
  if (!GetParam().complaints) return;
  for (const std::string& complaint : GetParam().complaints(*backend_, meant_wrong_use_)) {
    ADD_FAILURE() << complaint;
  }
}

void BackendConformance::GiveBackAll() {
  for (const DeviceStream stream : streams_) EXPECT_TRUE(Ok(backend_->SyncStream(stream)));
  for (const DeviceStream stream : streams_) EXPECT_TRUE(Ok(backend_->DestroyStream(stream)));
  for (const DeviceEvent event : events_) EXPECT_TRUE(Ok(backend_->DestroyEvent(event)));
  for (const auto& [device, data] : device_memory_) {
    EXPECT_TRUE(Ok(backend_->FreeDevice(device, data)));
  }
  for (const auto& buffer : host_memory_) {
    EXPECT_TRUE(Ok(backend_->UnregisterHost(buffer->data())));
  }
}

DeviceStream BackendConformance::NewStream(int device, StreamPriority priority) {
  DeviceStream stream;
  EXPECT_TRUE(Ok(backend_->CreateStream(device, priority, &stream)));
  EXPECT_TRUE(stream);
  streams_.push_back(stream);
  return stream;
}

DeviceEvent BackendConformance::NewEvent(int device, EventKind kind) {
  DeviceEvent event;
  EXPECT_TRUE(Ok(backend_->CreateEvent(device, kind, &event)));
  EXPECT_TRUE(event);
  events_.push_back(event);
  return event;
}

std::byte* BackendConformance::NewDevice(std::size_t bytes, int device) {
  std::byte* data = nullptr;
  EXPECT_TRUE(Ok(backend_->AllocDevice(device, bytes, &data)));
  EXPECT_NE(data, nullptr);
  device_memory_.emplace_back(device, data);
  return data;
}

std::byte* BackendConformance::NewFilledDevice(std::size_t bytes, std::byte value, int device) {
  std::byte* data = NewDevice(bytes, device);
  const DeviceStream stream = NewStream(device);
  EXPECT_TRUE(Ok(backend_->Fill(stream, data, value, bytes)));
  EXPECT_TRUE(Ok(backend_->SyncStream(stream)));
  Destroy(stream);
  return data;
}

std::span<std::byte> BackendConformance::NewHost(std::size_t bytes, std::uint64_t seed) {
  auto buffer = std::make_unique<AlignedBuffer>(bytes);
  for (std::size_t i = 0; i < bytes; ++i) buffer->data()[i] = PatternByte(i, seed);
  return Register(std::move(buffer));
}

std::span<std::byte> BackendConformance::NewHost(std::size_t bytes, std::byte value) {
  return Register(std::make_unique<AlignedBuffer>(bytes, value));
}

std::span<std::byte> BackendConformance::Register(std::unique_ptr<AlignedBuffer> buffer) {
  const std::span<std::byte> bytes = buffer->span();
  EXPECT_TRUE(Ok(backend_->RegisterHost(bytes.data(), bytes.size())));
  backend_->NoteHostWrite(bytes.data(), bytes.size(), "the test's data");
  host_memory_.push_back(std::move(buffer));
  return bytes;
}

void BackendConformance::Destroy(DeviceStream stream) {
  EXPECT_TRUE(Ok(backend_->DestroyStream(stream)));
  EXPECT_EQ(std::erase(streams_, stream), 1u);
}

void BackendConformance::Destroy(DeviceEvent event) {
  EXPECT_TRUE(Ok(backend_->DestroyEvent(event)));
  EXPECT_EQ(std::erase(events_, event), 1u);
}

void BackendConformance::Free(std::byte* device_data) {
  const auto at = std::find_if(device_memory_.begin(), device_memory_.end(),
                               [=](const auto& memory) { return memory.second == device_data; });
  ASSERT_NE(at, device_memory_.end());
  EXPECT_TRUE(Ok(backend_->FreeDevice(at->first, device_data)));
  device_memory_.erase(at);
}

void BackendConformance::Finish(DeviceStream stream, DeviceEvent event) {
  ASSERT_TRUE(Ok(backend_->Record(event, stream)));
  WaitFor(event);
}

void BackendConformance::WaitFor(DeviceEvent event) {
  const std::int64_t until = backend_->NowNanos() + kUnreasonablyLongNs;
  for (;;) {
    bool done = false;
    ASSERT_TRUE(Ok(backend_->Query(event, &done)));
    if (done) return;
    const std::int64_t now = backend_->NowNanos();
    ASSERT_LT(now, until) << "the event is never done";
    backend_->Idle(now + kLookNs);
  }
}

std::vector<std::byte> BackendConformance::ReadBack(DeviceStream stream, const std::byte* data,
                                                    std::size_t bytes) {
  std::vector<std::byte> result(bytes);
  EXPECT_TRUE(Ok(backend_->CopyToHost(stream, result.data(), data, bytes)));
  EXPECT_TRUE(Ok(backend_->SyncStream(stream)));
  HostRead(result);
  return result;
}

std::span<const std::byte> BackendConformance::HostRead(std::span<const std::byte> bytes) {
  backend_->NoteHostRead(bytes.data(), bytes.size(), "the test's look");
  return bytes;
}

}  // namespace ringfeed
