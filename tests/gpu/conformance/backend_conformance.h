#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ringfeed/devices/device_backend.h"
#include "tests/support/pattern_file.h"

namespace ringfeed {

/// A backend that the suite runs on: how to get it, and what may be asked of it. Each test opens
/// one of its own.
struct BackendUnderTest {
  std::string name;
  /// Null where it cannot be had here, for the reason in *why_not.
  std::function<std::shared_ptr<DeviceBackend>(std::string* why_not)> open;
  /// What it has to say against the test at its end; empty where it watches nothing. Wrong uses
  /// that the test meant are left out.
  std::function<std::vector<std::string>(DeviceBackend&, bool meant_wrong_use)> complaints;
  bool virtual_time = false;  ///< a clock of its own, that moves in Idle and syncs alone
  bool keeps_time = true;     ///< Busy takes at least as long as it says
  bool answers_late = false;  ///< a query may say no about what is done
  bool hardware = false;  ///< others use the device too: its free memory is not the test's alone
};

/// gtest prints a backend by its name.
void PrintTo(const BackendUnderTest& backend, std::ostream* out);
/// For INSTANTIATE_TEST_SUITE_P.
std::string BackendName(const testing::TestParamInfo<BackendUnderTest>& info);

/// Whether a call went well, or failed in that way; says otherwise how it went.
testing::AssertionResult Ok(const Status& status);
testing::AssertionResult FailsWith(StatusCode code, const Status& status);
/// Whether the bytes are those of PatternByte from `offset`; says otherwise where they are not.
testing::AssertionResult IsPattern(std::span<const std::byte> bytes, std::uint64_t offset,
                                   std::uint64_t seed);
/// Whether all bytes are `value`; says otherwise where they are not.
testing::AssertionResult AreAll(std::span<const std::byte> bytes, std::byte value);

/// A test of one backend. What the fixture made it gives back in TearDown, behind all work; then
/// the backend must have nothing against the test.
///
/// The host tells the backend of every access to memory that devices use too (NoteHostRead,
/// NoteHostWrite): the helpers do so, a test that touches such memory itself does it itself.
class BackendConformance : public testing::TestWithParam<BackendUnderTest> {
 protected:
  /// Of the memory of an emulated device there is that much: tests stay well below.
  static constexpr std::size_t kDeviceBytes = std::size_t{64} << 20;

  void SetUp() override;
  void TearDown() override;

  DeviceBackend& backend() { return *backend_; }
  const std::shared_ptr<DeviceBackend>& shared_backend() { return backend_; }
  /// Whether there are that many; a test that needs more skips.
  bool HasDevices(int devices) { return backend_->DeviceCount() >= devices; }
  /// What the backend notes as wrong use from here on is what the test is about.
  void MeanWrongUse() { meant_wrong_use_ = true; }

  DeviceStream NewStream(int device = 0, StreamPriority priority = StreamPriority::kNormal);
  DeviceEvent NewEvent(int device = 0, EventKind kind = EventKind::kPlain);
  /// Device memory, of no particular content.
  std::byte* NewDevice(std::size_t bytes, int device = 0);
  /// Device memory, all of it `value`, to be seen by every stream.
  std::byte* NewFilledDevice(std::size_t bytes, std::byte value, int device = 0);
  /// Registered host memory with PatternByte(i, seed) at i.
  std::span<std::byte> NewHost(std::size_t bytes, std::uint64_t seed);
  /// Registered host memory, all of it `value`.
  std::span<std::byte> NewHost(std::size_t bytes, std::byte value);

  // Gives back what the fixture made, before the end.
  void Destroy(DeviceStream stream);
  void Destroy(DeviceEvent event);
  void Free(std::byte* device_data);

  /// Records the event and polls until it is done.
  void Finish(DeviceStream stream, DeviceEvent event);
  /// Polls, with Idle in between, until what the event stands for is done; fails the test where
  /// that takes unreasonably long.
  void WaitFor(DeviceEvent event);
  /// What the device memory holds once all of the stream's work is done.
  std::vector<std::byte> ReadBack(DeviceStream stream, const std::byte* data, std::size_t bytes);
  /// The bytes, as the host may read them: behind the copy that wrote them.
  std::span<const std::byte> HostRead(std::span<const std::byte> bytes);

 private:
  template <typename T>
  using OfDevice = std::pair<int, T>;

  std::span<std::byte> Register(std::unique_ptr<AlignedBuffer> buffer);
  void GiveBackAll();

  std::shared_ptr<DeviceBackend> backend_;
  bool meant_wrong_use_ = false;
  std::vector<DeviceStream> streams_;
  std::vector<DeviceEvent> events_;
  std::vector<OfDevice<std::byte*>> device_memory_;
  std::vector<std::unique_ptr<AlignedBuffer>> host_memory_;
};

/// Of backends that all threads may call: only these are instantiated with it.
class ThreadsConformance : public BackendConformance {};

/// Of backends that take copies from memory that is not registered.
class UnregisteredConformance : public BackendConformance {};

}  // namespace ringfeed
