#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "ringfeed/devices/device_kernels.h"

namespace ringfeed {
namespace {

constexpr std::array<std::byte, 8> kPadding = {std::byte{0xA1}, std::byte{0xB2}, std::byte{0xC3},
                                               std::byte{0xD4}, std::byte{0xE5}, std::byte{0xF6},
                                               std::byte{0x17}, std::byte{0x28}};

/// A ragged input of which each byte is known.
struct Ragged {
  std::vector<std::int64_t> offsets;
  std::uint64_t input_units = 0;
  std::uint64_t length = 0;
  std::uint32_t unit_bytes = 1;
  std::uint32_t padding_bytes = 1;

  std::vector<std::byte> Input() const {
    std::vector<std::byte> input(input_units * unit_bytes);
    for (std::size_t i = 0; i < input.size(); ++i) input[i] = static_cast<std::byte>(i * 131 + 7);
    return input;
  }
};

std::vector<std::byte> Padded(const Ragged& ragged) {
  const std::vector<std::byte> input = ragged.Input();
  const std::size_t rows = ragged.offsets.size() - 1;
  std::vector<std::byte> output(rows * ragged.length * ragged.unit_bytes, std::byte{0xEE});
  const RaggedToPadded kernel{.input = input.data(),
                              .offsets = ragged.offsets.data(),
                              .output = output.data(),
                              .rows = rows,
                              .length = ragged.length,
                              .input_units = ragged.input_units,
                              .unit_bytes = ragged.unit_bytes,
                              .padding_bytes = ragged.padding_bytes,
                              .padding = kPadding};
  const Status status = CheckKernel(kernel);
  EXPECT_TRUE(status.ok()) << status.ToString();
  RunKernelOnHost(kernel);
  return output;
}

/// Byte for byte: each asks for the step that it is of.
std::vector<std::byte> SlowPadded(const Ragged& ragged) {
  const std::vector<std::byte> input = ragged.Input();
  std::vector<std::byte> output;
  for (std::size_t row = 0; row + 1 < ragged.offsets.size(); ++row) {
    for (std::uint64_t byte = 0; byte < ragged.length * ragged.unit_bytes; ++byte) {
      const auto first = static_cast<__int128>(std::max<std::int64_t>(ragged.offsets[row], 0));
      const __int128 step = first + byte / ragged.unit_bytes;
      const bool there = step < ragged.offsets[row + 1] && step < ragged.input_units;
      output.push_back(
          there
              ? input[static_cast<std::size_t>(step) * ragged.unit_bytes + byte % ragged.unit_bytes]
              : kPadding[byte % ragged.padding_bytes]);
    }
  }
  return output;
}

TEST(RaggedToPadded, EveryUnitAndPaddingSize) {
  for (const std::uint32_t padding_bytes : {1U, 2U, 4U, 8U}) {
    for (std::uint32_t unit_bytes = padding_bytes; unit_bytes <= 48; unit_bytes += padding_bytes) {
      const Ragged ragged{.offsets = {0, 3, 3, 9, 10, 22},
                          .input_units = 22,
                          .length = 7,
                          .unit_bytes = unit_bytes,
                          .padding_bytes = padding_bytes};
      ASSERT_EQ(Padded(ragged), SlowPadded(ragged)) << unit_bytes << ", " << padding_bytes;
    }
  }
}

TEST(RaggedToPadded, EveryLengthOfRowAndOutput) {
  for (std::uint64_t length = 0; length <= 40; ++length) {
    Ragged ragged{.offsets = {0}, .length = length, .unit_bytes = 6, .padding_bytes = 2};
    for (std::int64_t steps = 0; steps <= 41; ++steps) {
      ragged.offsets.push_back(ragged.offsets.back() + steps);
    }
    ragged.input_units = static_cast<std::uint64_t>(ragged.offsets.back());
    ASSERT_EQ(Padded(ragged), SlowPadded(ragged)) << length;
  }
}

TEST(RaggedToPadded, ShortRowsAreFilledUpAndLongOnesCut) {
  const std::vector<std::int16_t> input = {1, 2, 3, 4, 5, 6, 7};
  const std::vector<std::int64_t> offsets = {0, 1, 1, 7};
  std::vector<std::int16_t> output(9);
  const RaggedToPadded kernel{.input = reinterpret_cast<const std::byte*>(input.data()),
                              .offsets = offsets.data(),
                              .output = reinterpret_cast<std::byte*>(output.data()),
                              .rows = 3,
                              .length = 3,
                              .input_units = 7,
                              .unit_bytes = 2,
                              .padding_bytes = 2,
                              .padding = {std::byte{0x9C}, std::byte{0xFF}}};
  ASSERT_TRUE(CheckKernel(kernel).ok());
  RunKernelOnHost(kernel);
  EXPECT_EQ(output, (std::vector<std::int16_t>{1, -100, -100, -100, -100, -100, 2, 3, 4}));
}

TEST(RaggedToPadded, EmptyRowsArePaddingAlone) {
  const Ragged ragged{.offsets = {0, 0, 0, 0}, .length = 5, .unit_bytes = 8, .padding_bytes = 8};
  const std::vector<std::byte> output = Padded(ragged);
  ASSERT_EQ(output.size(), 3U * 5 * 8);
  for (std::size_t i = 0; i < output.size(); ++i) ASSERT_EQ(output[i], kPadding[i % 8]);
}

TEST(RaggedToPadded, RowsBeyondTheInputAreFilledUp) {
  const Ragged ragged{.offsets = {0, 4, 12, 20, 30},
                      .input_units = 10,
                      .length = 8,
                      .unit_bytes = 4,
                      .padding_bytes = 4};
  EXPECT_EQ(Padded(ragged), SlowPadded(ragged));
}

TEST(RaggedToPadded, OffsetsThatMakeNoSenseReadNothingOutside) {
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const Ragged ragged{.offsets = {5, 2, 4, -3, 6, kLeast, 3, kMost, kMost, kLeast, 10, 11, 0, -1},
                      .input_units = 10,
                      .length = 6,
                      .unit_bytes = 3,
                      .padding_bytes = 1};
  EXPECT_EQ(Padded(ragged), SlowPadded(ragged));
}

TEST(RaggedToPadded, NoRowsAndNoLengthAreNoWork) {
  RunKernelOnHost(RaggedToPadded{});
  const RaggedToPadded no_length{.rows = 3};
  EXPECT_TRUE(CheckKernel(no_length).ok());
  RunKernelOnHost(no_length);
}

}  // namespace
}  // namespace ringfeed
