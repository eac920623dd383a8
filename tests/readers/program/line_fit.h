#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "ringfeed/compat/program.h"
#include "ringfeed/tensor.h"
#include "tests/support/pattern_file.h"

namespace ringfeed {

/// A line y = w·x + b that is fitted to batches by steps along the gradient.
class LineFit {
 public:
  /// One step; returns the mean squared error before it.
  double Train(const Tensor& x, const Tensor& y);
  /// The function "train" of a program: x and y in, the loss (a double) out.
  FeedProgram::Function AsFunction();

  const std::vector<double>& losses() const { return losses_; }
  std::size_t rows() const { return rows_; }
  const std::array<double, 3>& weights() const { return weights_; }  ///< w0, w1, b

 private:
  std::array<double, 3> weights_{};
  std::vector<double> losses_;
  std::size_t rows_ = 0;
};

/// A test in a folder of its own, which has line.recordio: 200 records of x float32[1, 2] and
/// y float32[1, 1], y = 2 x0 - 3 x1 + 1.
class LineFitTest : public testing::Test {
 protected:
  static constexpr std::size_t kRecords = 200;
  static constexpr std::size_t kBatch = 10;
  static constexpr std::size_t kPasses = 5;  ///< of the programs in tests/data/programs

  LineFitTest();
  ~LineFitTest() override;

  /// The text of a program in tests/data/programs.
  static std::string ProgramText(const std::string& name);
  /// Expects that the line was found by whole passes, with a loss that fell.
  static void ExpectFitted(const LineFit& fit);

 private:
  TempDir directory_;
  std::filesystem::path folder_before_;
};

}  // namespace ringfeed
