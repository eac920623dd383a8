#include "tests/readers/program/line_fit.h"

#include <random>
#include <span>

#include "ringfeed/formats.h"
#include "tests/support/record_data.h"

namespace ringfeed {

namespace {

void WriteLine(const std::string& path, std::size_t records) {
  const RecordWriterResult opened = OpenRecordWriter(path, "recordio");
  ASSERT_TRUE(opened.status.ok()) << opened.status.ToString();
  std::mt19937 random(3);
  std::uniform_real_distribution<float> uniform(-1, 1);
  LoDTensorBuilder builder;
  for (std::size_t i = 0; i < records; ++i) {
    const std::array<float, 2> x = {uniform(random), uniform(random)};
    const std::array<float, 1> y = {2 * x[0] - 3 * x[1] + 1};
    builder.Add(kFloat32, {1, 2}, std::as_bytes(std::span(x)));
    builder.Add(kFloat32, {1, 1}, std::as_bytes(std::span(y)));
    ASSERT_TRUE(opened.writer->Write(builder.Finish()).ok());
  }
  ASSERT_TRUE(opened.writer->Close().ok());
}

}  // namespace

double LineFit::Train(const Tensor& x, const Tensor& y) {
  constexpr double kRate = 0.3;
  const auto points = x.Values<float>();
  const auto values = y.Values<float>();
  const auto rows = static_cast<double>(values.size());
  std::array<double, 3> slope{};
  double loss = 0;
  for (std::size_t row = 0; row < values.size(); ++row) {
    const std::array<double, 3> input = {points[2 * row], points[2 * row + 1], 1};
    double error = -values[row];
    for (std::size_t i = 0; i < input.size(); ++i) error += weights_[i] * input[i];
    for (std::size_t i = 0; i < input.size(); ++i) slope[i] += 2 * error * input[i] / rows;
    loss += error * error / rows;
  }
  for (std::size_t i = 0; i < slope.size(); ++i) weights_[i] -= kRate * slope[i];
  rows_ += values.size();
  losses_.push_back(loss);
  return loss;
}

FeedProgram::Function LineFit::AsFunction() {
  return [this](Scope* scope, const auto& inputs, const auto& outputs) {
    scope->Var<double>(outputs.at(0)) =
        Train(scope->Get<Tensor>(inputs.at(0)), scope->Get<Tensor>(inputs.at(1)));
  };
}

LineFitTest::LineFitTest() : folder_before_(std::filesystem::current_path()) {
  WriteLine(directory_.File("line.recordio"), kRecords);
  std::filesystem::current_path(directory_.path());
}

LineFitTest::~LineFitTest() { std::filesystem::current_path(folder_before_); }

std::string LineFitTest::ProgramText(const std::string& name) {
  return ReadBytes(RINGFEED_TEST_DATA "/programs/" + name);
}

void LineFitTest::ExpectFitted(const LineFit& fit) {
  EXPECT_EQ(fit.rows(), kPasses * kRecords);
  ASSERT_EQ(fit.losses().size(), kPasses * kRecords / kBatch);
  EXPECT_LT(fit.losses().back(), fit.losses().front() / 1000);
  EXPECT_NEAR(fit.weights()[0], 2, 0.05);
  EXPECT_NEAR(fit.weights()[1], -3, 0.05);
  EXPECT_NEAR(fit.weights()[2], 1, 0.05);
}

}  // namespace ringfeed
