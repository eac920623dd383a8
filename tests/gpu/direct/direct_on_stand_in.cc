// The suite on emulated devices, and what only a library of the tests' own can be made to do.

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "gpu/feed/batch_supply.h"
#include "gpu/feed/feed_core.h"
#include "ringfeed/devices/emulated_devices.h"
#include "tests/gpu/direct/direct_suite.h"
#include "tests/gpu/direct/stand_in.h"
#include "tests/gpu/feed/forwarding_backend.h"

namespace ringfeed {
namespace {

StandInCuFile& StandIn() {
  static auto* const stand_in = [] {
    void* const library = dlopen(RINGFEED_STAND_IN_CUFILE, RTLD_NOW | RTLD_LOCAL);
    using Give = StandInCuFile* (*)();
    return reinterpret_cast<Give>(dlsym(library, kStandInCall))();
  }();
  return *stand_in;
}

std::shared_ptr<CuFileLibrary> FreshLibrary() {
  return std::make_shared<CuFileLibrary>(RINGFEED_STAND_IN_CUFILE);
}

void TellDevices(void* devices, const std::byte* data, std::size_t bytes) {
  static_cast<EmulatedDevices*>(devices)->NoteDirectWrite(0, data, bytes, "a disk's write");
}

std::shared_ptr<DeviceBackend> OpenEmulated(std::string*) {
  StandIn().Reset();
  auto devices = EmulatedDevices::Open(1);
  StandIn().whom = devices.get();
  StandIn().tell = TellDevices;
  return devices;
}

std::shared_ptr<DeviceBackend> OpenLate(std::string* why_not) {
  auto devices = OpenEmulated(why_not);
  StandIn().late_us = 3000;
  StandIn().most_bytes = 5000;
  return devices;
}

[[maybe_unused]] std::shared_ptr<DeviceBackend> OpenDirect(std::string* why_not) {
  auto devices = OpenEmulated(why_not);
  StandIn().reads_directly = true;
  return devices;
}

/// Of reads by GPUDirect ThreadSanitizer sees no more than of those that come late and short: it
/// goes without, for time.
std::vector<DirectRig> Rigs() {
  std::vector<DirectRig> rigs = {{"Compatible", OpenEmulated, FreshLibrary},
                                 {"LateAndShort", OpenLate, FreshLibrary}};
#ifndef __SANITIZE_THREAD__
  rigs.push_back({"ByGpuDirect", OpenDirect, FreshLibrary});
#endif
  return rigs;
}

INSTANTIATE_TEST_SUITE_P(StandIn, DirectTest, testing::ValuesIn(Rigs()),
                         [](const auto& test) { return test.param.name; });

/// The same rows under one mishap of the library's.
class StandInTest : public DirectTest {
 protected:
  DirectOutcome FeedRows(TransferPlan transfer = TransferPlan::kDirect) {
    library_ = FreshLibrary();
    StandIn().uses = 0;
    return Feed(RowChain(path_), transfer);
  }
  void SetUp() override {
    DirectTest::SetUp();
    path_ = Rows(90);
    expected_ = FeedRows(TransferPlan::kBatch);
  }
  void TearDown() override {
    DirectTest::TearDown();
    EXPECT_EQ(StandIn().files, 0);
    EXPECT_EQ(StandIn().wrong_calls, 0u);
  }
  void ExpectByTheHost(const std::string& why) {
    const DirectOutcome got = FeedRows();
    EXPECT_TRUE(got == expected_) << got;
    EXPECT_EQ(got.stats.direct_bytes, 0u);
    EXPECT_NE(got.stats.transfer_reason.find(why), std::string::npos) << got;
  }
  void ExpectDirect(const std::string& how) {
    const DirectOutcome got = FeedRows();
    EXPECT_TRUE(got == expected_) << got;
    EXPECT_EQ(got.stats.transfer, TransferPlan::kDirect);
    EXPECT_NE(got.stats.transfer_reason.find(how), std::string::npos) << got;
  }

  std::string path_;
  DirectOutcome expected_;
};

TEST_P(StandInTest, TheReportNamesThePath) {
  ExpectDirect("cuFile's compatibility mode");
  StandIn().reads_directly = true;
  ExpectDirect("GPUDirect by NVIDIA's driver");
  StandIn().has_driver = false;
  ExpectDirect("GPUDirect by peer-to-peer DMA");
  EXPECT_EQ(StandIn().buffers, 0);
}

// The driver is opened without its compatibility mode first, and once more where that fails.
TEST_P(StandInTest, TheDriverIsOpenedInTheBestModeThatItHas) {
  ExpectDirect("compatibility");
  EXPECT_EQ(StandIn().opens, 2);
  EXPECT_EQ(StandIn().closes, 1);
  StandIn().reads_directly = true;
  ExpectDirect("GPUDirect");
  EXPECT_EQ(StandIn().opens, 3);
}

TEST_P(StandInTest, AutoTakesGpuDirectAloneAndLongRecords) {
  const DirectOutcome compatible = FeedRows(TransferPlan::kAuto);
  EXPECT_TRUE(compatible == expected_) << compatible;
  EXPECT_EQ(compatible.stats.direct_bytes, 0u);
  StandIn().reads_directly = true;
  const DirectOutcome direct = FeedRows(TransferPlan::kAuto);
  EXPECT_TRUE(direct == expected_) << direct;
  EXPECT_EQ(direct.stats.transfer, TransferPlan::kDirect) << direct;
  const std::string path = Rows(300, 160);
  const DirectOutcome shorter = Feed(
      Batch(Globally(Parse(OpenFiles({path}, Fresh("rows:160")), RowParser(160))), {.size = 20}),
      TransferPlan::kAuto);
  EXPECT_EQ(shorter.stats.direct_bytes, 0u);
}

TEST_P(StandInTest, ADriverThatDoesNotOpenLeavesItToTheHost) {
  StandIn().open_error = 5007;
  ExpectByTheHost("cuFileDriverOpen: error 5007");
}

TEST_P(StandInTest, SoDoesAParameterThatIsRefused) {
  StandIn().parameter_error = 5022;
  ExpectByTheHost("cuFileSetParameterBool: error 5022");
}

TEST_P(StandInTest, SoDoesAFileThatIsNotKnown) {
  StandIn().file_error = 5027;
  ExpectByTheHost("cuFileHandleRegister: error 5027");
  EXPECT_EQ(StandIn().opens, StandIn().closes);
}

// The first file was taken, by which it is seen whether the library works here.
TEST_P(StandInTest, OfAFileThatIsRefusedLaterTheHostReads) {
  StandIn().files_before_error = 2;
  StandIn().file_error = 5011;
  ExpectDirect("reads by the host's pread and a copy, as cuFile failed: unsupported");
}

TEST_P(StandInTest, MemoryThatIsNotRegisteredWorksToo) {
  StandIn().buffer_error = 5010;
  ExpectDirect("compatibility");
}

TEST_P(StandInTest, ReadsThatFailAreTheHosts) {
  for (const int error : {5011, 5030, EIO, EINVAL}) {
    SCOPED_TRACE(error);
    StandIn().Reset();
    StandIn().read_error = error;
    StandIn().error_every = 3;
    ExpectDirect("reads by the host's pread and a copy");
    StandIn().error_every = 0;
  }
}

TEST_P(StandInTest, ALibraryThatFailsAlwaysIsNotAskedForEver) {
  StandIn().read_error = 5030;
  StandIn().error_every = 1;
  ExpectByTheHost("cuFileRead: error 5030");
  // It works when it is tried, and not once behind that.
  StandIn().error_every = 1;
  StandIn().first_error = 2;
  StandIn().reads = 0;
  library_ = FreshLibrary();
  StandIn().uses = 0;
  const DirectOutcome got = Feed(RowChain(Rows(400)), TransferPlan::kDirect);
  EXPECT_EQ(got.batches.size(), 67u);
  EXPECT_LE(StandIn().reads, 120u);
  EXPECT_NE(got.stats.transfer_reason.find("as cuFile failed"), std::string::npos) << got;
}

TEST_P(StandInTest, ADeviceWithoutMemoryLeavesItToTheHost) {
  EmulatedOptions options;
  options.devices[0].memory_bytes = std::size_t{8} << 20;
  backend_ = EmulatedDevices::Open(options);
  StandIn().whom = backend_.get();
  ExpectByTheHost("bytes left");
}

TEST_P(StandInTest, NoLibraryIsAReason) {
  library_ = std::make_shared<CuFileLibrary>("/nowhere/libcufile.so.0");
  const DirectOutcome got = Feed(RowChain(path_), TransferPlan::kDirect);
  EXPECT_TRUE(got == expected_) << got;
  EXPECT_NE(got.stats.transfer_reason.find("no cuFile: /nowhere"), std::string::npos) << got;
}

TEST_P(StandInTest, EmulatedDevicesTakeNoLibraryThatWasNotNamed) {
  library_ = std::make_shared<CuFileLibrary>("");
  const DirectOutcome got = Feed(RowChain(path_), TransferPlan::kDirect);
  EXPECT_TRUE(got == expected_) << got;
  EXPECT_NE(got.stats.transfer_reason.find("cuFile does not know emulated devices"),
            std::string::npos)
      << got;
}

TEST_P(StandInTest, SeveralDevicesAndFixedSlotsGoByTheHost) {
  FeedOptions options;
  options.fixed_slots = true;
  const DirectOutcome fixed = Feed(RowChain(path_), TransferPlan::kDirect, options);
  EXPECT_TRUE(fixed == expected_) << fixed;
  EXPECT_NE(fixed.stats.transfer_reason.find("fixed slots"), std::string::npos) << fixed;
  const auto devices = EmulatedDevices::Open(2);
  FeedOptions two;
  two.backend = devices;
  two.devices = {0, 1};
  two.transfer = TransferPlan::kDirect;
  const auto core = FeedCore::Start(SupplyOf(RowChain(path_), two, FreshLibrary()), two);
  std::size_t batches = 0;
  DeviceLease lease;
  Status status;
  for (; core->TryNext(&lease, &status) == ReadResult::kRecord; ++batches) lease.Release();
  EXPECT_EQ(batches, 15u);
  EXPECT_NE(core->Stats().devices[1].transfer_reason.find("has several"), std::string::npos);
  EXPECT_TRUE(core->Close().ok());
}

/// Says that all work is done as soon as it is enqueued.
class HastyDevices final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  Status Query(DeviceEvent event, bool* done) override {
    const Status status = ForwardingBackend::Query(event, done);
    *done = *done || hasty.load();
    return status;
  }
  std::atomic<bool> hasty = false;
};

// A slab that is written again while the device still takes rows from it is seen, whatever the rows
// look like then.
TEST_P(StandInTest, ASlabThatGoesBackTooEarlyIsSeen) {
  EmulatedOptions slow;
  slow.devices[0].speed = 1e-3;
  const auto devices = EmulatedDevices::Open(slow);
  StandIn().whom = devices.get();
  const auto hasty = std::make_shared<HastyDevices>(devices);
  FeedOptions options;
  options.backend = hasty;
  options.devices = {0};
  options.transfer = TransferPlan::kDirect;
  const auto run = [&](bool is_hasty) {
    hasty->hasty = is_hasty;
    OpenOptions open = Fresh("rows:" + std::to_string(kRowBytes));
    const Reader rows = Globally(Parse(OpenFiles({path_}, open), RowParser()));
    const Reader batches = Batch(MultiPass(rows, 40), {.size = 6});
    const auto core = FeedCore::Start(SupplyOf(batches, options, FreshLibrary()), options);
    DeviceLease lease;
    Status status;
    while (core->TryNext(&lease, &status) == ReadResult::kRecord) lease.Release();
    hasty->hasty = false;
    EXPECT_TRUE(core->Close().ok());
  };
  run(false);
  EXPECT_TRUE(devices->offences().empty()) << devices->offences().front().ToString();
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer sees it first, and ends the program";
#else
  const auto is_seen = [&] {
    const auto offences = devices->offences();
    return std::any_of(offences.begin(), offences.end(),
                       [](const Offence& offence) { return offence.rule == "written in flight"; });
  };
  // On a busy machine the device may be done before anybody reads into the slab again.
  for (int trial = 0; trial < 20 && !is_seen(); ++trial) run(true);
  EXPECT_TRUE(is_seen());
#endif
}

TEST_P(StandInTest, NothingLeaks) {
  const auto devices = EmulatedDevices::Open(1);
  StandIn().whom = devices.get();
  backend_ = devices;
  for (int round = 0; round < 3; ++round) ExpectDirect("compatibility");
  EXPECT_TRUE(devices->Leaks().none());
  EXPECT_EQ(StandIn().buffers, 0);
}

INSTANTIATE_TEST_SUITE_P(Mishaps, StandInTest,
                         testing::Values(DirectRig{"Emulated", OpenEmulated, FreshLibrary}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace ringfeed
