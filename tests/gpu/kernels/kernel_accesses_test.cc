#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "ringfeed/devices/device_kernels.h"
#include "tests/gpu/kernels/guarded_memory.h"

namespace ringfeed {
namespace {

void Point(CastNormalize& kernel, const std::vector<std::byte*>& inputs, std::byte* output) {
  kernel.input = inputs[0];
  if (inputs.size() > 1) kernel.crops = reinterpret_cast<const std::int32_t*>(inputs[1]);
  kernel.output = output;
}

void Point(WidenTokens& kernel, const std::vector<std::byte*>& inputs, std::byte* output) {
  kernel.input = inputs[0];
  kernel.output = output;
}

void Point(RaggedToPadded& kernel, const std::vector<std::byte*>& inputs, std::byte* output) {
  kernel.input = inputs[0];
  kernel.offsets = reinterpret_cast<const std::int64_t*>(inputs[1]);
  kernel.output = output;
}

void Point(GatherPieces& kernel, const std::vector<std::byte*>& inputs, std::byte* output) {
  kernel.input = inputs[0];
  kernel.pieces = reinterpret_cast<const GatheredPiece*>(inputs[1]);
  kernel.output = output;
}

void Point(SumPieces& kernel, const std::vector<std::byte*>& inputs, std::byte* output) {
  kernel.input = inputs[0];
  kernel.pieces = reinterpret_cast<const SummedPiece*>(inputs[1]);
  kernel.output = reinterpret_cast<std::uint32_t*>(output);
}

void Point(Checksum& kernel, const std::vector<std::byte*>& inputs, std::byte* output) {
  kernel.input = inputs[0];
  kernel.output = reinterpret_cast<std::uint64_t*>(output);
}

/// A kernel without memory, and what it reads: a byte for each that KernelAccesses should name.
struct Case {
  std::string name;
  DeviceKernel kernel;
  std::vector<std::vector<std::byte>> inputs;
  std::size_t output_bytes = 0;
};

std::vector<std::byte> Pattern(std::size_t bytes) {
  std::vector<std::byte> pattern(bytes);
  for (std::size_t i = 0; i < bytes; ++i) pattern[i] = static_cast<std::byte>(i * 57 + 3);
  return pattern;
}

template <typename Number>
std::vector<std::byte> BytesOf(const std::vector<Number>& numbers) {
  std::vector<std::byte> bytes(numbers.size() * sizeof(Number));
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

std::vector<Case> Cases() {
  const CastNormalize cast{.rows = 3, .height = 5, .width = 7, .channels = 3};
  CastNormalize half = cast;
  half.output_dtype = kFloat16;
  half.channels_first = true;
  CastNormalize crop = cast;
  crop.crop_height = 4;
  crop.crop_width = 2;
  CastNormalize crop_first = crop;
  crop_first.channels_first = true;
  const std::vector<std::int32_t> corners = {-9, 0, 0, 1, 5, 1, 99, 99, 2};
  const RaggedToPadded ragged{
      .rows = 4, .length = 5, .input_units = 11, .unit_bytes = 6, .padding_bytes = 2};
  return {
      {"Cast", cast, {Pattern(315)}, 1260},
      {"CastChannelsFirst", half, {Pattern(315)}, 630},
      {"CropOfTheMiddle", crop, {Pattern(315)}, 288},
      {"Crops", crop, {Pattern(315), BytesOf(corners)}, 288},
      {"CropsChannelsFirst", crop_first, {Pattern(315), BytesOf(corners)}, 288},
      {"WidenTo32", WidenTokens{.count = 77, .output_dtype = kInt32}, {Pattern(154)}, 308},
      {"WidenTo64", WidenTokens{.count = 77}, {Pattern(154)}, 616},
      {"Padded", ragged, {Pattern(66), BytesOf<std::int64_t>({0, 3, 3, 8, 11})}, 120},
      {"PaddedAtRandom", ragged, {Pattern(66), BytesOf<std::int64_t>({12, -5, 40, 9, 1})}, 120},
      {"Gathered",
       GatherPieces{.input_bytes = 100, .count = 3, .output_bytes = 100},
       {Pattern(100), BytesOf<std::int64_t>({0, 40, 60, 60, 0, 33, 93, 33, 7})},
       100},
      {"Summed",
       SumPieces{.input_bytes = 100, .count = 3, .texts = 4},
       {Pattern(100), BytesOf<SummedPiece>({{0, 60, 40, 0}, {40, 0, 60, 0}, {33, 5, 9, 2}})},
       16},
      {"SummedNothing", SumPieces{.input_bytes = 100, .texts = 4}, {{}, {}}, 16},
      {"Checksum", Checksum{.bytes = 101}, {Pattern(101)}, 8},
      {"ChecksumOfWords", Checksum{.bytes = 96}, {Pattern(96)}, 8},
      {"ChecksumOfNothing", Checksum{}, {{}}, 8},
  };
}

/// The case's kernel on memory of its own, where a step aside crashes.
class OnGuardedMemory {
 public:
  OnGuardedMemory(const Case& test, GuardedMemory::Edge edge)
      : kernel_(test.kernel), output_(test.output_bytes, edge) {
    std::vector<std::byte*> pointers;
    for (const std::vector<std::byte>& input : test.inputs) {
      inputs_.push_back(std::make_unique<GuardedMemory>(input.size(), edge));
      std::copy(input.begin(), input.end(), inputs_.back()->data());
      inputs_.back()->MakeReadOnly();
      pointers.push_back(inputs_.back()->data());
    }
    std::visit([&](auto& kernel) { Point(kernel, pointers, output_.data()); }, kernel_);
  }

  const DeviceKernel& kernel() const { return kernel_; }
  const GuardedMemory& input(std::size_t i) const { return *inputs_[i]; }
  const GuardedMemory& output() const { return output_; }

  /// What the output is after it was filled with a byte.
  std::vector<std::byte> Run(std::byte before) {
    std::fill_n(output_.data(), output_.bytes().size(), before);
    RunKernelOnHost(kernel_);
    return {output_.bytes().begin(), output_.bytes().end()};
  }

 private:
  DeviceKernel kernel_;
  std::vector<std::unique_ptr<GuardedMemory>> inputs_;
  GuardedMemory output_;
};

class KernelAccessesOf : public ::testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(Each, KernelAccessesOf, ::testing::ValuesIn(Cases()),
                         [](const auto& test) { return test.param.name; });

TEST_P(KernelAccessesOf, NamesEachPieceOfMemoryOnce) {
  const OnGuardedMemory there(GetParam(), GuardedMemory::Edge::kEnd);
  ASSERT_TRUE(CheckKernel(there.kernel()).ok()) << CheckKernel(there.kernel()).ToString();
  const std::vector<MemoryAccess> accesses = KernelAccesses(there.kernel());
  const std::size_t inputs = GetParam().inputs.size();
  for (std::size_t i = 0; i < inputs; ++i) {
    EXPECT_FALSE(accesses[i].writes);
    EXPECT_EQ(accesses[i].bytes, GetParam().inputs[i].size());
    EXPECT_EQ(accesses[i].data, accesses[i].bytes > 0 ? there.input(i).data() : nullptr);
  }
  EXPECT_TRUE(accesses[inputs].writes);
  EXPECT_EQ(accesses[inputs].bytes, GetParam().output_bytes);
  EXPECT_EQ(accesses[inputs].data, there.output().data());
  for (std::size_t i = inputs + 1; i < accesses.size(); ++i) {
    EXPECT_EQ(accesses[i].bytes, 0U);
    EXPECT_EQ(accesses[i].data, nullptr);
  }
}

TEST_P(KernelAccessesOf, TouchesNothingElseAndWritesAllOfTheOutput) {
  OnGuardedMemory at_end(GetParam(), GuardedMemory::Edge::kEnd);
  OnGuardedMemory at_begin(GetParam(), GuardedMemory::Edge::kBegin);
  const std::vector<std::byte> output = at_end.Run(std::byte{0xEE});
  EXPECT_EQ(at_end.Run(std::byte{0x11}), output);
  EXPECT_EQ(at_begin.Run(std::byte{0}), output);
}

TEST(KernelAccesses, NameNoInputThatDoesNotMatter) {
  for (const Case& test : Cases()) {
    if (test.name == "PaddedAtRandom") continue;  // its offsets leave steps out
    if (test.name.starts_with("Crop")) continue;  // what stands around is not taken
    OnGuardedMemory there(test, GuardedMemory::Edge::kEnd);
    const std::vector<std::byte> output = there.Run(std::byte{0});
    for (std::size_t i = 0; i < test.inputs[0].size(); ++i) {
      Case changed = test;
      changed.inputs[0][i] ^= std::byte{1};
      ASSERT_NE(OnGuardedMemory(changed, GuardedMemory::Edge::kEnd).Run(std::byte{0}), output)
          << test.name << ", byte " << i;
    }
  }
}

TEST(KernelAccesses, NameThePartsOfAnInputThatIsNotTakenWhole) {
  std::array<std::byte, 100> input{};
  std::array<std::byte, 20> output{};
  const std::array<GatheredPiece, 2> pieces = {GatheredPiece{0, 0, 10}, GatheredPiece{90, 10, 10}};
  const std::array<MemoryAccess, 2> parts = {MemoryAccess{input.data(), 10, false},
                                             MemoryAccess{input.data() + 90, 10, false}};
  const GatherPieces kernel{.input = input.data(),
                            .input_bytes = input.size(),
                            .pieces = pieces.data(),
                            .count = pieces.size(),
                            .output = output.data(),
                            .output_bytes = output.size(),
                            .input_parts = parts};
  const std::vector<MemoryAccess> accesses = KernelAccesses(kernel);
  ASSERT_EQ(accesses.size(), 4U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(accesses[i].data, parts[i].data);
    EXPECT_EQ(accesses[i].bytes, 10U);
    EXPECT_FALSE(accesses[i].writes);
  }
  EXPECT_EQ(accesses[2].data, reinterpret_cast<const std::byte*>(pieces.data()));
  EXPECT_TRUE(accesses[3].writes);
}

TEST(KernelAccesses, AreEmptyWithoutWork) {
  const std::vector<DeviceKernel> kernels = {CastNormalize{},
                                             WidenTokens{},
                                             RaggedToPadded{},
                                             RaggedToPadded{.rows = 3, .input_units = 5},
                                             RaggedToPadded{.length = 3, .input_units = 5},
                                             GatherPieces{.input_bytes = 5, .output_bytes = 5},
                                             SumPieces{.input_bytes = 5, .count = 3}};
  for (const DeviceKernel& kernel : kernels) {
    for (const MemoryAccess& access : KernelAccesses(kernel)) {
      EXPECT_EQ(access.bytes, 0U) << "kernel " << kernel.index();
      EXPECT_EQ(access.data, nullptr);
    }
  }
}

}  // namespace
}  // namespace ringfeed
