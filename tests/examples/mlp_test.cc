// The network of examples/train_multi_gpu.cc.

#include "examples/mlp.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "examples/mlp_math.h"
#include "examples/mlp_replica.h"
#include "ringfeed/compat/random_data.h"
#include "ringfeed/dataset.h"
#include "ringfeed/decorators.h"
#include "ringfeed/device_feed.h"
#include "ringfeed/devices/emulated_devices.h"

namespace mlp {
namespace {

constexpr std::uint64_t kRows = 60;
constexpr float kRate = 0.1F;

struct Rows {
  std::vector<float> inputs;
  std::vector<std::int64_t> labels;
  Batch batch() const { return {inputs.data(), labels.data(), labels.size()}; }
  Batch Part(std::uint64_t begin, std::uint64_t count) const {
    return {inputs.data() + begin * kInputs, labels.data() + begin, count};
  }
};

Rows RandomRows() {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  Rows rows;
  for (std::uint64_t i = 0; i < kRows * kInputs; ++i) rows.inputs.push_back(normal(random));
  for (std::uint64_t r = 0; r < kRows; ++r) rows.labels.push_back(r % 3 == 0 ? 1 : 0);
  return rows;
}

std::vector<float> StartWeights() {
  std::vector<float> weights(kWeights);
  for (int w = 0; w < kWeights; ++w) weights[static_cast<std::size_t>(w)] = InitialWeight(w);
  return weights;
}

std::vector<float> SumsOf(const std::vector<float>& weights, const Batch& batch) {
  Weights laid_out;
  std::memcpy(&laid_out, weights.data(), sizeof(laid_out));
  std::vector<RowState> rows(batch.rows);
  for (std::uint64_t r = 0; r < batch.rows; ++r) {
    RunRow(laid_out, batch.inputs + r * kInputs, batch.labels[r], &rows[r]);
  }
  std::vector<float> sums;
  for (int s = 0; s < kSums; ++s) sums.push_back(SumOver(s, batch, rows.data()));
  return sums;
}

TEST(Mlp, SlopesAreThoseOfTheLoss) {
  constexpr float kStep = 1e-3F;
  const Rows rows = RandomRows();
  const Batch few = rows.Part(0, 12);  // many would have the ReLU bend at some
  const std::vector<float> weights = StartWeights();
  const std::vector<float> sums = SumsOf(weights, few);
  float most = 0;
  for (std::size_t w = 0; w < kWeights; ++w) {
    std::vector<float> above = weights;
    std::vector<float> below = weights;
    above[w] += kStep;
    below[w] -= kStep;
    const float rise = SumsOf(above, few)[kWeights] - SumsOf(below, few)[kWeights];
    EXPECT_NEAR(sums[w], rise / (2 * kStep), 0.02F) << "weight " << w;
    most = std::max(most, std::abs(sums[w]));
  }
  EXPECT_GT(most, 1) << "so that what is near is not just small";
}

TEST(Mlp, SumsOfPartsAddUpToThoseOfTheWhole) {
  const Rows rows = RandomRows();
  const std::vector<float> weights = StartWeights();
  const std::vector<float> all = SumsOf(weights, rows.batch());
  const std::vector<float> first = SumsOf(weights, rows.Part(0, 5));
  const std::vector<float> second = SumsOf(weights, rows.Part(5, kRows - 5));
  for (std::size_t s = 0; s < kSums; ++s) EXPECT_NEAR(first[s] + second[s], all[s], 1e-4F);
  EXPECT_EQ(all[kWeights + 1], kRows);
}

TEST(Mlp, InitialWeightsAreSpreadAndBiasesZero) {
  Weights weights;
  std::memcpy(&weights, StartWeights().data(), sizeof(weights));
  for (const float bias : weights.hidden_bias) EXPECT_EQ(bias, 0);
  for (const float bias : weights.output_bias) EXPECT_EQ(bias, 0);
  float sum = 0;
  float squares = 0;
  for (const auto& row : weights.hidden) {
    for (const float weight : row) sum += weight, squares += weight * weight;
  }
  constexpr float kCount = kHidden * kInputs;
  EXPECT_NEAR(sum / kCount, 0, 0.03F);
  EXPECT_NEAR(squares / kCount, 1.0F / (3 * kInputs), 0.006F);
}

/// The rows as batches of a feed, one row after another.
class RowsSource final : public ringfeed::InstanceSource {
 public:
  explicit RowsSource(Rows rows) : rows_(std::make_shared<Rows>(std::move(rows))) {}
  ringfeed::ReadResult ReadNext(ringfeed::Instance* instance, std::stop_token,
                                ringfeed::Status*) override {
    if (next_ == kRows) return ringfeed::ReadResult::kEnd;
    const auto* const x = rows_->inputs.data() + next_ * kInputs;
    const auto* const label = rows_->labels.data() + next_;
    instance->clear();
    instance->push_back({ringfeed::kFloat32,
                         {kInputs},
                         reinterpret_cast<const std::byte*>(x),
                         kInputs * sizeof(float),
                         {},
                         rows_});
    instance->push_back({ringfeed::kInt64,
                         {},
                         reinterpret_cast<const std::byte*>(label),
                         sizeof(*label),
                         {},
                         rows_});
    ++next_;
    return ringfeed::ReadResult::kRecord;
  }

 private:
  const std::shared_ptr<const Rows> rows_;
  std::uint64_t next_ = 0;
};

/// Host memory that copies take.
class RegisteredFloats {
 public:
  RegisteredFloats(ringfeed::DeviceBackend* backend, std::size_t count)
      : backend_(backend), floats_(count) {
    EXPECT_TRUE(backend_->RegisterHost(data(), count * sizeof(float)).ok());
  }
  ~RegisteredFloats() { EXPECT_TRUE(backend_->UnregisterHost(data()).ok()); }
  std::span<float> get() { return floats_; }

 private:
  std::byte* data() { return reinterpret_cast<std::byte*>(floats_.data()); }
  ringfeed::DeviceBackend* const backend_;
  std::vector<float> floats_;
};

/// Two replicas on simulated devices, which look for hazards, stepped by one thread in turn.
class MlpReplicas : public testing::Test {
 protected:
  static constexpr std::size_t kBatchRows = 2;

  /// Steps over all rows; gives the loss of each step.
  std::vector<float> Train(Kernels* kernels) {
    ringfeed::DeviceFeed feed(Batches(), {.backend = backend_});
    RegisteredFloats sums_of_first(backend_.get(), kSums);
    RegisteredFloats sums(backend_.get(), kSums);
    Replica first(backend_, kernels, 0, kBatchRows);
    Replica second(backend_, kernels, 1, kBatchRows);
    std::vector<float> losses;
    while (auto batch = feed.Next(0)) {
      Bind(0);
      first.Gradient(std::move(*batch), sums_of_first.get());
      Bind(1);
      second.Gradient(*feed.Next(1), sums.get());
      backend_->NoteHostWrite(reinterpret_cast<const std::byte*>(sums.get().data()), sizeof(Sums),
                              "adding up");
      for (std::size_t s = 0; s < kSums; ++s) sums.get()[s] += sums_of_first.get()[s];
      losses.push_back(sums.get()[kWeights]);
      second.Update(sums.get(), kRate);
      Bind(0);
      first.Update(sums.get(), kRate);
    }
    return losses;
  }
  void Bind(int device) { ASSERT_TRUE(backend_->BindThread(device).ok()); }
  ringfeed::Reader Batches() {
    auto rows = ringfeed::FromInstanceSource(
        std::make_unique<RowsSource>(RandomRows()),
        {{"x", ringfeed::kFloat32, {kInputs}}, {"label", ringfeed::kInt64, {}}});
    return ringfeed::Batch(rows, {.size = kBatchRows});
  }

  const std::shared_ptr<ringfeed::EmulatedDevices> backend_ =
      ringfeed::EmulatedDevices::Open({.devices = std::vector<ringfeed::EmulatedDevice>(2),
                                       .simulated = true,
                                       .policy = ringfeed::SchedulePolicy::kRandom,
                                       .seed = 4});
};

TEST_F(MlpReplicas, StepAsOneDeviceWithTheBatchesOfBothWould) {
  const std::vector<float> losses = Train(KernelsOnHost(backend_).get());
  const Rows rows = RandomRows();
  std::vector<float> weights = StartWeights();
  ASSERT_EQ(losses.size(), kRows / (2 * kBatchRows));
  for (std::size_t step = 0; step < losses.size(); ++step) {
    Sums sums;
    const std::vector<float> all =
        SumsOf(weights, rows.Part(step * 2 * kBatchRows, 2 * kBatchRows));
    std::memcpy(&sums, all.data(), sizeof(sums));
    EXPECT_NEAR(losses[step], sums.loss, 1e-5F) << "step " << step;
    for (int w = 0; w < kWeights; ++w) UpdateWeight(w, kRate, sums, weights.data());
  }
}

TEST_F(MlpReplicas, LeaveNoHazardAndNothingBehind) {
  Train(KernelsOnHost(backend_).get());
  for (const ringfeed::Offence& offence : backend_->offences()) ADD_FAILURE() << offence.ToString();
  EXPECT_TRUE(backend_->Leaks().none());
}

}  // namespace
}  // namespace mlp
