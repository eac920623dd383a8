#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

#include "ringfeed/devices/device_kernels.h"

namespace ringfeed {
namespace {

constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

/// Memory for pointers that make sense: CheckKernel looks at none of it.
struct Memory {
  alignas(16) std::byte input[1024];
  alignas(16) std::int64_t offsets[64];
  alignas(16) std::byte output[4096];
};
Memory memory;

CastNormalize GoodCast() {
  return {.input = memory.input,
          .output = memory.output,
          .rows = 4,
          .height = 5,
          .width = 6,
          .channels = 3};
}
WidenTokens GoodWiden() { return {.input = memory.input, .output = memory.output, .count = 100}; }
RaggedToPadded GoodPadded() {
  return {.input = memory.input,
          .offsets = memory.offsets,
          .output = memory.output,
          .rows = 10,
          .length = 12,
          .input_units = 64,
          .unit_bytes = 16,
          .padding_bytes = 8};
}
Checksum GoodChecksum() {
  return {.input = memory.input,
          .bytes = 1000,
          .output = reinterpret_cast<std::uint64_t*>(memory.output)};
}

/// The message of the refusal; "" where there is none.
std::string RefusalOf(const DeviceKernel& kernel) {
  const Status status = CheckKernel(kernel);
  EXPECT_TRUE(status.ok() || status.code() == StatusCode::kInvalidArgument);
  return status.message();
}

template <typename Kernel, typename Change>
std::string RefusalOf(Kernel kernel, Change change) {
  EXPECT_EQ(RefusalOf(DeviceKernel(kernel)), "");
  change(kernel);
  return RefusalOf(DeviceKernel(kernel));
}

TEST(CheckKernel, GoodKernelsAndThoseWithoutWorkAreOk) {
  EXPECT_EQ(RefusalOf(GoodCast()), "");
  EXPECT_EQ(RefusalOf(GoodWiden()), "");
  EXPECT_EQ(RefusalOf(GoodPadded()), "");
  EXPECT_EQ(RefusalOf(GoodChecksum()), "");
  EXPECT_EQ(RefusalOf(CastNormalize{}), "");
  EXPECT_EQ(RefusalOf(WidenTokens{}), "");
  EXPECT_EQ(RefusalOf(RaggedToPadded{}), "");
}

TEST(CheckKernel, CastNormalizeRefusesChannelsBesidesOneToFour) {
  EXPECT_EQ(RefusalOf(GoodCast(), [](auto& kernel) { kernel.channels = 0; }),
            "CastNormalize: channels is 0, not 1 to 4");
  EXPECT_EQ(RefusalOf(GoodCast(), [](auto& kernel) { kernel.channels = 5; }),
            "CastNormalize: channels is 5, not 1 to 4");
  EXPECT_EQ(RefusalOf(GoodCast(), [](auto& kernel) { kernel.channels = kMost; }),
            "CastNormalize: channels is 18446744073709551615, not 1 to 4");
  for (std::uint64_t channels = 1; channels <= 4; ++channels) {
    EXPECT_EQ(RefusalOf(GoodCast(), [&](auto& kernel) { kernel.channels = channels; }), "");
  }
}

TEST(CheckKernel, CastNormalizeRefusesTypesThatAreNoFloats) {
  for (int value = 0; value <= static_cast<int>(kFloat64); ++value) {
    const auto dtype = static_cast<DType>(value);
    const bool good = dtype == kFloat32 || dtype == kFloat16 || dtype == kBFloat16;
    EXPECT_EQ(RefusalOf(GoodCast(), [&](auto& kernel) { kernel.output_dtype = dtype; }),
              good ? ""
                   : "CastNormalize: output_dtype is " + std::string(DTypeName(dtype)) +
                         "; it gives float32, float16 and bfloat16");
  }
}

TEST(CheckKernel, CastNormalizeRefusesMeansAndScalesThatAreNotFinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const float bad : {kInfinity, -kInfinity, kNan}) {
    EXPECT_EQ(RefusalOf(GoodCast(), [&](auto& kernel) { kernel.mean[2] = bad; }),
              "CastNormalize: mean[2] is not a finite number");
    EXPECT_EQ(RefusalOf(GoodCast(), [&](auto& kernel) { kernel.scale[0] = bad; }),
              "CastNormalize: scale[0] is not a finite number");
    EXPECT_EQ(RefusalOf(GoodCast(), [&](auto& kernel) { kernel.scale[3] = bad; }), "")
        << "there are three channels";
  }
}

TEST(CheckKernel, CastNormalizeRefusesSizesThatOverflow) {
  const std::string refusal = "CastNormalize: rows * height * width * channels overflows";
  EXPECT_EQ(RefusalOf(GoodCast(), [](auto& kernel) { kernel.rows = kMost; }), refusal);
  EXPECT_EQ(RefusalOf(GoodCast(), [](auto& kernel) { kernel.height = kMost / 360; }), refusal);
  EXPECT_EQ(RefusalOf(GoodCast(), [](auto& kernel) { kernel.width = std::uint64_t{1} << 61; }),
            refusal);
  EXPECT_EQ(RefusalOf(GoodCast(),
                      [](auto& kernel) {
                        kernel.rows = kernel.height = kMost;
                        kernel.width = 0;
                      }),
            "");
}

CastNormalize GoodCrop() {
  CastNormalize kernel = GoodCast();
  kernel.crop_height = 3;
  kernel.crop_width = 6;
  kernel.crops = reinterpret_cast<const std::int32_t*>(memory.offsets);
  return kernel;
}

TEST(CheckKernel, CastNormalizeRefusesCropsThatAreLargerThanTheImage) {
  EXPECT_EQ(RefusalOf(GoodCrop(), [](auto& kernel) { kernel.crop_height = 6; }),
            "CastNormalize: crop_height is 6, and height 5");
  EXPECT_EQ(RefusalOf(GoodCrop(), [](auto& kernel) { kernel.crop_width = kMost; }),
            "CastNormalize: crop_width is 18446744073709551615, and width 6");
  EXPECT_EQ(RefusalOf(GoodCrop(), [](auto& kernel) { kernel.crop_height = 5; }), "");
  EXPECT_EQ(RefusalOf(GoodCrop(), [](auto& kernel) { kernel.crop_height = 0; }), "");
  EXPECT_EQ(RefusalOf(GoodCrop(), [](auto& kernel) { kernel.crops = nullptr; }), "");
}

TEST(CheckKernel, CastNormalizeRefusesPlacesOffTheirBoundaryOrInTheOutput) {
  const auto with_crops = [](const std::byte* crops) {
    return RefusalOf(GoodCrop(), [&](auto& kernel) {
      kernel.crops = reinterpret_cast<const std::int32_t*>(crops);
    });
  };
  EXPECT_EQ(with_crops(memory.input + 402), "CastNormalize: crops is not on a boundary of 4 bytes");
  EXPECT_EQ(with_crops(memory.output), "CastNormalize: crops and output overlap");
  // 4 rows of 3 by 6 pixels of 3 channels: less is written than of whole images.
  EXPECT_EQ(with_crops(memory.output + 4 * 4 * 3 * 6 * 3 - 4),
            "CastNormalize: crops and output overlap");
  EXPECT_EQ(with_crops(memory.output + 4 * 4 * 3 * 6 * 3), "");
  EXPECT_EQ(RefusalOf(GoodCrop(), [](auto& kernel) { kernel.input = nullptr; }),
            "CastNormalize: input is null");
  EXPECT_EQ(RefusalOf(GoodCrop(),
                      [](auto& kernel) {
                        kernel.rows = kMost / 8;
                        kernel.height = kernel.width = kernel.channels = 1;
                        kernel.crop_height = kernel.crop_width = 1;
                        kernel.output_dtype = kFloat16;
                      }),
            "CastNormalize: rows overflows");
}

TEST(CheckKernel, CastNormalizeRefusesBadPointers) {
  EXPECT_EQ(RefusalOf(GoodCast(), [](auto& kernel) { kernel.input = nullptr; }),
            "CastNormalize: input is null");
  EXPECT_EQ(RefusalOf(GoodCast(), [](auto& kernel) { kernel.output = nullptr; }),
            "CastNormalize: output is null");
  EXPECT_EQ(RefusalOf(GoodCast(), [](auto& kernel) { kernel.output += 2; }),
            "CastNormalize: output is not on a boundary of 4 bytes");
  EXPECT_EQ(RefusalOf(GoodCast(),
                      [](auto& kernel) {
                        kernel.output += 2;
                        kernel.output_dtype = kFloat16;
                      }),
            "");
  EXPECT_EQ(RefusalOf(GoodCast(), [](auto& kernel) { kernel.input += 1; }), "");
}

TEST(CheckKernel, OutputsThatOverlapInputsAreRefused) {
  const auto overlap = [](std::ptrdiff_t input_at) {
    return RefusalOf(GoodCast(), [&](auto& kernel) { kernel.input = kernel.output + input_at; });
  };
  const std::ptrdiff_t input_bytes = 360;
  EXPECT_EQ(overlap(0), "CastNormalize: input and output overlap");
  EXPECT_EQ(overlap(1 - input_bytes), "CastNormalize: input and output overlap");
  EXPECT_EQ(overlap(-input_bytes), "");
  EXPECT_EQ(overlap(4 * input_bytes - 1), "CastNormalize: input and output overlap");
  EXPECT_EQ(overlap(4 * input_bytes), "");
  EXPECT_EQ(RefusalOf(GoodWiden(), [](auto& kernel) { kernel.input = kernel.output + 798; }),
            "WidenTokens: input and output overlap");
  EXPECT_EQ(RefusalOf(GoodPadded(), [](auto& kernel) { kernel.input = kernel.output + 1912; }),
            "RaggedToPadded: input and output overlap");
  EXPECT_EQ(RefusalOf(GoodPadded(),
                      [](auto& kernel) {
                        kernel.offsets = reinterpret_cast<const std::int64_t*>(kernel.output);
                      }),
            "RaggedToPadded: offsets and output overlap");
  EXPECT_EQ(RefusalOf(GoodChecksum(), [](auto& kernel) { kernel.input = memory.output + 7; }),
            "Checksum: input and output overlap");
}

TEST(CheckKernel, WidenTokensRefusesTypesBesidesTwo) {
  for (int value = 0; value <= static_cast<int>(kFloat64); ++value) {
    const auto dtype = static_cast<DType>(value);
    EXPECT_EQ(RefusalOf(GoodWiden(), [&](auto& kernel) { kernel.output_dtype = dtype; }),
              dtype == kInt32 || dtype == kInt64
                  ? ""
                  : "WidenTokens: output_dtype is " + std::string(DTypeName(dtype)) +
                        "; it gives int32 and int64");
  }
}

TEST(CheckKernel, WidenTokensRefusesBadSizesAndPointers) {
  EXPECT_EQ(RefusalOf(GoodWiden(), [](auto& kernel) { kernel.count = kMost / 16 + 1; }),
            "WidenTokens: count overflows");
  EXPECT_EQ(RefusalOf(GoodWiden(), [](auto& kernel) { kernel.input = nullptr; }),
            "WidenTokens: input is null");
  EXPECT_EQ(RefusalOf(GoodWiden(), [](auto& kernel) { kernel.output = nullptr; }),
            "WidenTokens: output is null");
  EXPECT_EQ(RefusalOf(GoodWiden(), [](auto& kernel) { kernel.input += 1; }),
            "WidenTokens: input is not on a boundary of 2 bytes");
  EXPECT_EQ(RefusalOf(GoodWiden(), [](auto& kernel) { kernel.output += 4; }),
            "WidenTokens: output is not on a boundary of 8 bytes");
}

TEST(CheckKernel, RaggedToPaddedRefusesBadUnits) {
  for (const std::uint32_t bytes : {0U, 3U, 16U, 0xFFFFFFFFU}) {
    EXPECT_EQ(RefusalOf(GoodPadded(), [&](auto& kernel) { kernel.padding_bytes = bytes; }),
              "RaggedToPadded: padding_bytes is " + std::to_string(bytes) + ", not 1, 2, 4 or 8");
  }
  for (const std::uint32_t bytes : {0U, 4U, 17U}) {
    EXPECT_EQ(RefusalOf(GoodPadded(), [&](auto& kernel) { kernel.unit_bytes = bytes; }),
              "RaggedToPadded: unit_bytes is " + std::to_string(bytes) +
                  ", not a multiple of padding_bytes");
  }
}

TEST(CheckKernel, RaggedToPaddedRefusesSizesThatOverflow) {
  EXPECT_EQ(RefusalOf(GoodPadded(), [](auto& kernel) { kernel.length = kMost / 160; }),
            "RaggedToPadded: rows * length * unit_bytes overflows");
  EXPECT_EQ(RefusalOf(GoodPadded(), [](auto& kernel) { kernel.rows = kMost; }),
            "RaggedToPadded: rows * length * unit_bytes overflows");
  EXPECT_EQ(RefusalOf(GoodPadded(), [](auto& kernel) { kernel.input_units = kMost / 32 + 1; }),
            "RaggedToPadded: input_units * unit_bytes overflows");
  for (const std::uint64_t rows : {kMost, kMost - 1, kMost / 16}) {
    EXPECT_EQ(RefusalOf(GoodPadded(),
                        [&](auto& kernel) {
                          kernel.rows = rows;
                          kernel.length = 0;
                        }),
              "RaggedToPadded: rows overflows");
  }
}

TEST(CheckKernel, RaggedToPaddedRefusesBadPointers) {
  EXPECT_EQ(RefusalOf(GoodPadded(), [](auto& kernel) { kernel.input = nullptr; }),
            "RaggedToPadded: input is null");
  EXPECT_EQ(RefusalOf(GoodPadded(), [](auto& kernel) { kernel.offsets = nullptr; }),
            "RaggedToPadded: offsets is null");
  EXPECT_EQ(RefusalOf(GoodPadded(), [](auto& kernel) { kernel.output = nullptr; }),
            "RaggedToPadded: output is null");
  EXPECT_EQ(RefusalOf(GoodPadded(), [](auto& kernel) { kernel.input += 4; }),
            "RaggedToPadded: input is not on a boundary of 8 bytes");
  EXPECT_EQ(RefusalOf(GoodPadded(),
                      [](auto& kernel) {
                        kernel.offsets = reinterpret_cast<const std::int64_t*>(memory.input + 4);
                      }),
            "RaggedToPadded: offsets is not on a boundary of 8 bytes");
  EXPECT_EQ(RefusalOf(GoodPadded(), [](auto& kernel) { kernel.output += 1; }),
            "RaggedToPadded: output is not on a boundary of 8 bytes");
  EXPECT_EQ(RefusalOf(GoodPadded(),
                      [](auto& kernel) {
                        kernel.input = nullptr;
                        kernel.input_units = 0;
                      }),
            "");
}

TEST(CheckKernel, ChecksumRefusesBadSizesAndPointers) {
  EXPECT_EQ(RefusalOf(GoodChecksum(), [](auto& kernel) { kernel.bytes = kMost / 2 + 1; }),
            "Checksum: bytes overflows");
  EXPECT_EQ(RefusalOf(GoodChecksum(), [](auto& kernel) { kernel.input = nullptr; }),
            "Checksum: input is null");
  EXPECT_EQ(RefusalOf(GoodChecksum(), [](auto& kernel) { kernel.output = nullptr; }),
            "Checksum: output is null");
  EXPECT_EQ(RefusalOf(GoodChecksum(),
                      [](auto& kernel) {
                        kernel.output = reinterpret_cast<std::uint64_t*>(memory.output + 4);
                      }),
            "Checksum: output is not on a boundary of 8 bytes");
  EXPECT_EQ(RefusalOf(Checksum{}), "Checksum: output is null");
}

}  // namespace
}  // namespace ringfeed
