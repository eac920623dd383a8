// The loop of examples/train_multi_gpu.cc, where a device fails and where it does not.

#include "examples/mlp_trainer.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "examples/mlp.h"
#include "ringfeed/compat/random_data.h"
#include "ringfeed/decorators.h"
#include "ringfeed/device_feed.h"
#include "ringfeed/devices/emulated_devices.h"

namespace mlp {
namespace {

constexpr std::size_t kBatchRows = 8;
constexpr std::int64_t kEndlessPatienceMs = std::int64_t{1} << 40;  // who is not woken hangs

ringfeed::Reader RandomBatches(std::uint64_t rows) {
  const auto random = ringfeed::RandomData(
      {{"x", ringfeed::kFloat32, {1, kInputs}}, {"label", ringfeed::kInt64, {1}}},
      {.high = 2, .count = rows});
  return ringfeed::Batch(random, {.size = kBatchRows});
}

struct Training {
  explicit Training(std::uint64_t rows, const ringfeed::EmulatedOptions& emulated) {
    backend = ringfeed::EmulatedDevices::Open(emulated);
    ringfeed::DeviceFeed feed(RandomBatches(rows), {.backend = backend,
                                                    .last_step = ringfeed::LastStep::kShort,
                                                    .patience_ms = kEndlessPatienceMs});
    try {
      Train(&feed, KernelsOnHost(backend).get(), {.batch_rows = kBatchRows, .rate = 0.1F},
            [this](const Step& step) {
              EXPECT_EQ(step.number, rows_of_steps.size() + 1);
              rows_of_steps.push_back(step.rows);
              waits += step.waited_ms.size();
            });
    } catch (const ringfeed::Error& error) {
      status = error.status();
    }
  }
  std::shared_ptr<ringfeed::EmulatedDevices> backend;
  std::vector<double> rows_of_steps;
  std::size_t waits = 0;
  ringfeed::Status status;
};

ringfeed::EmulatedOptions Devices(std::size_t count) {
  ringfeed::EmulatedOptions options;
  options.devices.resize(count);
  return options;
}

TEST(MlpTrainer, EveryRowIsOfOneStep) {
  // Five batches for two devices, the last one of two rows.
  const Training run(4 * kBatchRows + 2, Devices(2));
  EXPECT_TRUE(run.status.ok()) << run.status.ToString();
  EXPECT_EQ(run.rows_of_steps, (std::vector<double>{2 * kBatchRows, 2 * kBatchRows, 2}));
  EXPECT_EQ(run.waits, 3 * 2U);
  EXPECT_TRUE(run.backend->offences().empty());
  EXPECT_TRUE(run.backend->Leaks().none());
}

TEST(MlpTrainer, DevicesWithoutARowStepWithTheOthers) {
  const Training run(1, Devices(3));
  EXPECT_EQ(run.rows_of_steps, std::vector<double>{1});
  EXPECT_TRUE(run.status.ok()) << run.status.ToString();
}

// With more data than are looked at: only the failure ends the other devices' loops.
constexpr std::uint64_t kManyRows = 200'000;
class MlpTrainerFailure : public testing::TestWithParam<ringfeed::DeviceFault> {};

TEST_P(MlpTrainerFailure, OfOneDeviceEndsAllLoopsWithItsReason) {
  ringfeed::EmulatedOptions options = Devices(3);
  options.faults = {GetParam()};
  const Training run(kManyRows, options);
  EXPECT_FALSE(run.status.ok());
  EXPECT_NE(run.status.message().find("planned fault"), std::string::npos) << run.status.ToString();
  EXPECT_TRUE(run.backend->Leaks().none());
  for (const ringfeed::Offence& offence : run.backend->offences()) {
    ADD_FAILURE() << offence.ToString();
  }
}

constexpr auto kFails = ringfeed::FaultEffect::kFails;
constexpr auto kLost = ringfeed::FaultEffect::kDeviceLost;
constexpr auto kLater = ringfeed::FaultEffect::kLater;
INSTANTIATE_TEST_SUITE_P(
    Calls, MlpTrainerFailure,
    testing::Values(ringfeed::DeviceFault{ringfeed::DeviceCall::kCopyToHost, 1, kFails},
                    ringfeed::DeviceFault{ringfeed::DeviceCall::kCopyToHost, 20, kLost},
                    ringfeed::DeviceFault{ringfeed::DeviceCall::kCopyToHost, 33, kLater},
                    ringfeed::DeviceFault{ringfeed::DeviceCall::kSyncStream, 17, kFails},
                    ringfeed::DeviceFault{ringfeed::DeviceCall::kCopyToDevice, 40, kLost}),
    [](const testing::TestParamInfo<ringfeed::DeviceFault>& test) {
      return std::string(ringfeed::DeviceCallName(test.param.call)) +
             std::to_string(test.param.nth);
    });

}  // namespace
}  // namespace mlp
