// Every kernel gives what its twin on the host gives, byte by byte, and writes nothing else.

#include "tests/gpu/conformance/kernels_conformance.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "gpu/piece_chunks.h"

namespace ringfeed {

std::byte* KernelsConformance::Upload(std::span<const std::byte> input, std::size_t offset) {
  const std::span<std::byte> from = NewHost(input.size(), std::byte{0});
  backend().NoteHostWrite(from.data(), from.size(), "the kernel's input");
  std::copy(input.begin(), input.end(), from.begin());
  std::byte* device = NewDevice(offset + input.size()) + offset;
  EXPECT_TRUE(Ok(backend().CopyToDevice(stream_, device, from.data(), from.size())));
  return device;
}

void KernelsConformance::CompareGathered(std::span<const std::byte> input,
                                         std::span<const GatheredPiece> pieces,
                                         std::uint64_t output_bytes) {
  GatherPieces kernel{Upload(input), input.size(), nullptr, pieces.size(), nullptr, output_bytes};
  if (!pieces.empty()) {
    kernel.pieces = reinterpret_cast<const GatheredPiece*>(Upload(std::as_bytes(pieces)));
  }
  GatherPieces twin = kernel;
  twin.input = input.data();
  twin.pieces = pieces.data();
  Compare(kernel, twin, output_bytes);
}

void KernelsConformance::CompareSums(std::span<const std::byte> input,
                                     std::span<const SummedPiece> pieces, std::uint64_t texts) {
  SumPieces kernel{Upload(input), input.size(), nullptr, pieces.size(), nullptr, texts};
  if (!pieces.empty()) {
    kernel.pieces = reinterpret_cast<const SummedPiece*>(Upload(std::as_bytes(pieces)));
  }
  SumPieces twin = kernel;
  twin.input = input.data();
  twin.pieces = pieces.data();
  Compare(kernel, twin, texts * sizeof(std::uint32_t));
}

namespace {

constexpr std::byte kBefore{0xA7};

std::vector<std::byte> RandomBytes(std::size_t bytes, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> data(bytes);
  for (std::byte& byte : data) byte = static_cast<std::byte>(random());
  return data;
}

struct Image {
  std::uint64_t rows, height, width, channels;
};

CastNormalize CastOf(const Image& image, const std::byte* input, DType dtype, bool channels_first) {
  return {input,
          nullptr,
          image.rows,
          image.height,
          image.width,
          image.channels,
          dtype,
          channels_first,
          {123.675f, 0.0f, 103.53f, -7.5f},
          {0.0171f, 1.0f, 1e-7f, 300.25f}};
}

TEST_P(KernelsConformance, CastNormalizeGivesItsTwinsBytes) {
  for (const Image image : {Image{1, 1, 1, 1}, Image{3, 5, 7, 3}, Image{2, 17, 33, 4},
                            Image{1, 1, 4099, 2}, Image{5, 64, 63, 3}, Image{7, 3, 16, 1}}) {
    const std::size_t count = image.rows * image.height * image.width * image.channels;
    const std::vector<std::byte> input = RandomBytes(count, count);
    for (const std::size_t offset : {0u, 1u, 7u}) {
      std::byte* on_device = Upload(input, offset);
      for (const DType dtype : {kFloat32, kFloat16, kBFloat16}) {
        for (const bool channels_first : {false, true}) {
          SCOPED_TRACE(testing::Message() << count << " of " << DTypeName(dtype));
          const CastNormalize kernel = CastOf(image, on_device, dtype, channels_first);
          CastNormalize twin = kernel;
          twin.input = input.data();
          Compare(kernel, twin, count * DTypeBytes(dtype));
        }
      }
    }
  }
}

struct Crop {
  Image image;
  std::uint64_t height, width;
};

// Places beyond the image too: whatever they are, nothing outside of it is read.
TEST_P(KernelsConformance, CroppedImagesAreTheirTwins) {
  for (const Crop crop :
       {Crop{{1, 1, 1, 1}, 1, 1}, Crop{{3, 5, 7, 3}, 4, 5}, Crop{{9, 16, 16, 1}, 14, 14},
        Crop{{2, 17, 33, 4}, 0, 32}, Crop{{5, 64, 63, 3}, 48, 48}, Crop{{300, 3, 16, 2}, 2, 0}}) {
    const Image image = crop.image;
    const std::size_t count = image.rows * image.height * image.width * image.channels;
    const std::vector<std::byte> input = RandomBytes(count, count);
    std::mt19937 random(7);
    std::vector<std::int32_t> places;
    for (std::uint64_t row = 0; row < image.rows; ++row) {
      places.push_back(static_cast<std::int32_t>(random() % (2 * image.height)) - 2);
      places.push_back(row % 5 == 4 ? static_cast<std::int32_t>(random()) : 1);
      places.push_back(static_cast<std::int32_t>(random() % 2));
    }
    std::byte* const on_device = Upload(input, 1);
    const auto* const places_there =
        reinterpret_cast<const std::int32_t*>(Upload(std::as_bytes(std::span(places)), 4));
    for (const DType dtype : {kFloat32, kFloat16, kBFloat16}) {
      for (const bool channels_first : {false, true}) {
        for (const bool has_places : {false, true}) {
          SCOPED_TRACE(testing::Message() << count << " of " << DTypeName(dtype));
          CastNormalize kernel = CastOf(image, on_device, dtype, channels_first);
          kernel.crop_height = crop.height;
          kernel.crop_width = crop.width;
          kernel.crops = has_places ? places_there : nullptr;
          CastNormalize twin = kernel;
          twin.input = input.data();
          twin.crops = has_places ? places.data() : nullptr;
          Compare(kernel, twin,
                  image.rows * kernel.output_height() * kernel.output_width() * image.channels *
                      DTypeBytes(dtype));
        }
      }
    }
  }
}

TEST_P(KernelsConformance, WidenTokensGivesItsTwinsBytes) {
  for (const std::size_t count : {1u, 2u, 7u, 8u, 255u, 4096u, 100'003u}) {
    const std::vector<std::byte> input = RandomBytes(count * 2, count);
    for (const std::size_t offset : {0u, 2u, 6u}) {
      std::byte* on_device = Upload(input, offset);
      for (const DType dtype : {kInt32, kInt64}) {
        SCOPED_TRACE(testing::Message() << count << " as " << DTypeName(dtype));
        Compare(WidenTokens{on_device, nullptr, count, dtype},
                WidenTokens{input.data(), nullptr, count, dtype}, count * DTypeBytes(dtype));
      }
    }
  }
}

// Rows of random lengths, empty ones and longer ones than `length` among them.
std::vector<std::int64_t> RandomOffsets(std::size_t rows, std::size_t length, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::int64_t> offsets(rows + 1);
  for (std::size_t row = 0; row < rows; ++row) {
    const std::uint64_t steps = random() % 4 == 0 ? 0 : random() % (2 * length + 1);
    offsets[row + 1] = offsets[row] + static_cast<std::int64_t>(steps);
  }
  return offsets;
}

TEST_P(KernelsConformance, RaggedToPaddedGivesItsTwinsBytes) {
  struct Units {
    std::uint32_t unit, padding;
  };
  for (const Units units : {Units{1, 1}, Units{2, 2}, Units{4, 4}, Units{8, 8}, Units{12, 4},
                            Units{6, 2}, Units{24, 8}, Units{13, 1}, Units{64, 1}}) {
    for (const std::size_t rows : {1u, 2u, 33u, 257u}) {
      for (const std::size_t length : {1u, 3u, 40u}) {
        SCOPED_TRACE(testing::Message()
                     << rows << " rows of " << length << " times " << units.unit);
        const std::vector<std::int64_t> offsets = RandomOffsets(rows, length, rows + length);
        const auto input_units = static_cast<std::uint64_t>(offsets.back());
        // One more, so that there is an input where all rows are empty.
        const std::vector<std::byte> input =
            RandomBytes((input_units + 1) * units.unit, rows * length);
        RaggedToPadded kernel{Upload(input), nullptr,     nullptr,    rows,
                              length,        input_units, units.unit, units.padding};
        for (std::size_t i = 0; i < 8; ++i) kernel.padding[i] = static_cast<std::byte>(0xD0 + i);
        kernel.offsets =
            reinterpret_cast<const std::int64_t*>(Upload(std::as_bytes(std::span(offsets))));
        RaggedToPadded twin = kernel;
        twin.input = input.data();
        twin.offsets = offsets.data();
        Compare(kernel, twin, rows * length * units.unit);
      }
    }
  }
}

// On all boundaries, beyond both ends, and long ones.
TEST_P(KernelsConformance, GatherPiecesGivesItsTwinsBytes) {
  std::mt19937_64 random(5);
  for (const std::size_t most : {1u, 40u, 700u, 50'000u}) {
    const std::vector<std::byte> input = RandomBytes(200'000, most);
    for (const std::size_t count : {1u, 3u, 77u}) {
      SCOPED_TRACE(testing::Message() << count << " pieces of up to " << most);
      std::vector<GatheredPiece> pieces;
      std::uint64_t to = 0;
      for (std::size_t i = 0; i < count; ++i) {
        const std::uint64_t bytes = random() % most + 1;
        const std::uint64_t from = i % 7 == 6 ? input.size() - bytes / 2 : random() % 150'000;
        pieces.push_back({from, to, bytes});
        to += bytes + random() % 17;
      }
      const std::uint64_t output_bytes = to - to / 50;
      CompareGathered(input, pieces, output_bytes);
    }
  }
}

// On all boundaries, beyond the end, of nothing, and long ones; of texts that have several pieces,
// and of some that have none.
TEST_P(KernelsConformance, SumPiecesGivesItsTwinsSums) {
  std::mt19937_64 random(6);
  for (const std::size_t most : {1u, 40u, 700u, 50'000u}) {
    const std::vector<std::byte> input = RandomBytes(200'000, most);
    const std::size_t many = most == 40 ? 1500 : 200;  // more than a grid has warps
    for (const std::size_t count : {std::size_t{1}, std::size_t{3}, std::size_t{77}, many}) {
      SCOPED_TRACE(testing::Message() << count << " pieces of up to " << most);
      const std::size_t texts = count / 2 + 1;
      std::vector<SummedPiece> pieces;
      for (std::size_t i = 0; i < count; ++i) {
        const std::uint64_t bytes = i % 11 == 10 ? 0 : random() % most + 1;
        const std::uint64_t from = i % 7 == 6 ? input.size() - bytes / 2 : random() % 150'000;
        pieces.push_back({from, random() >> random() % 64, static_cast<std::uint32_t>(bytes),
                          static_cast<std::uint32_t>(random() % (texts + 1))});
      }
      CompareSums(input, pieces, texts);
    }
  }
}

// One by one, and a long one among many short ones, whole and in chunks.
TEST_P(KernelsConformance, PiecesOfAnyLengthGiveTheirTwinsBytesAndSums) {
  std::vector<std::vector<std::uint64_t>> batches = {
      {0}, {1}, {kChunkBytes - 1}, {kChunkBytes}, {kChunkBytes + 1}};
  batches.emplace_back(1000, 1024).at(640) = (std::uint64_t{3} << 20) + 5;
  for (const std::vector<std::uint64_t>& lengths : batches) {
    const std::uint64_t all = std::accumulate(lengths.begin(), lengths.end(), std::uint64_t{0});
    const std::vector<std::byte> input = RandomBytes(all + 1, all);
    for (const bool in_chunks : {false, true}) {
      for (const std::uint64_t apart : {0u, 16u, 17u}) {  // from the places in the input
        SCOPED_TRACE(testing::Message() << all << " bytes, moved by " << apart);
        std::vector<GatheredPiece> gathered;
        std::vector<SummedPiece> summed;
        std::uint64_t from = 0;
        for (std::uint32_t text = 0; text < lengths.size(); from += lengths[text++]) {
          const auto add = [&](std::uint64_t at, std::uint64_t bytes) {
            gathered.push_back({from + at, from + at + apart, bytes});
            summed.push_back(
                {from + at, lengths[text] - at - bytes, static_cast<std::uint32_t>(bytes), text});
          };
          in_chunks ? ForEachChunk(lengths[text], add) : add(0, lengths[text]);
        }
        CompareGathered(input, gathered, all + apart);
        CompareSums(input, summed, lengths.size());
      }
    }
  }
}

TEST_P(KernelsConformance, ChecksumGivesItsTwinsNumber) {
  for (const std::size_t bytes :
       {0u, 1u, 2u, 7u, 8u, 9u, 15u, 16u, 17u, 63u, 255u, 4096u, 4101u, 1'048'579u}) {
    const std::vector<std::byte> input = RandomBytes(bytes + 1, bytes);
    for (const std::size_t offset : {0u, 1u, 3u, 8u}) {
      SCOPED_TRACE(testing::Message() << bytes << " bytes, moved by " << offset);
      Compare(Checksum{Upload(input, offset), bytes, nullptr},
              Checksum{input.data(), bytes, nullptr}, sizeof(std::uint64_t));
    }
  }
}

TEST_P(KernelsConformance, NothingToDoIsNoFault) {
  EXPECT_TRUE(Ok(backend().Launch(stream_, CastNormalize{})));
  EXPECT_TRUE(Ok(backend().Launch(stream_, WidenTokens{})));
  EXPECT_TRUE(Ok(backend().Launch(stream_, RaggedToPadded{})));
  EXPECT_TRUE(Ok(backend().Launch(stream_, GatherPieces{})));
  EXPECT_TRUE(Ok(backend().Launch(stream_, SumPieces{})));
  EXPECT_TRUE(Ok(backend().SyncStream(stream_)));
}

TEST_P(KernelsConformance, AKernelThatMakesNoSenseIsRefusedAndTheDeviceStaysUsable) {
  std::byte* input = NewDevice(4096);
  std::byte* output = NewDevice(4096);
  ASSERT_TRUE(Ok(backend().Fill(stream_, input, kBefore, 4096)));
  ASSERT_TRUE(Ok(backend().Fill(stream_, output, kBefore, 4096)));
  MeanWrongUse();
  const auto refused = [&](const DeviceKernel& kernel) {
    return FailsWith(StatusCode::kInvalidArgument, backend().Launch(stream_, kernel));
  };
  EXPECT_TRUE(refused(WidenTokens{nullptr, output, 10, kInt64})) << "no input";
  EXPECT_TRUE(refused(WidenTokens{input, output, 10, kFloat32})) << "dtype";
  EXPECT_TRUE(refused(CastNormalize{input, output, 1, 1, 1, 5})) << "channels";
  EXPECT_TRUE(refused(CastNormalize{input, nullptr, 1, 1, 1, 1})) << "no output";
  EXPECT_TRUE(refused(CastNormalize{.input = input, .output = output, .rows = 1, .crop_width = 2}))
      << "a crop larger than the image";
  EXPECT_TRUE(refused(Checksum{input, 8, nullptr})) << "no output";
  EXPECT_TRUE(AreAll(ReadBack(stream_, output, 4096), kBefore));
  ASSERT_TRUE(Ok(backend().Launch(stream_, WidenTokens{input, output, 1024, kInt32})));
  const std::vector<std::byte> result = ReadBack(stream_, output, 4096);
  for (std::size_t i = 0; i < 4096; ++i) {
    ASSERT_EQ(result[i], i % 4 < 2 ? kBefore : std::byte{0}) << i;
  }
}

TEST_P(KernelsConformance, KernelsRunInTheirStreamsOrder) {
  constexpr std::size_t kTokens = 50'000;
  const std::span<std::byte> first = NewHost(kTokens * 2, 1);
  const std::span<std::byte> second = NewHost(kTokens * 2, 2);
  const std::span<std::byte> sums = NewHost(20 * sizeof(std::uint64_t), kBefore);
  std::byte* tokens = NewDevice(kTokens * 2);
  std::byte* wide = NewDevice(kTokens * 8);
  std::byte* sum = NewDevice(sizeof(std::uint64_t));
  // The same memory in every step, and no wait of the host's.
  for (std::size_t round = 0; round < 20; ++round) {
    const std::byte* from = round % 2 == 0 ? first.data() : second.data();
    ASSERT_TRUE(Ok(backend().CopyToDevice(stream_, tokens, from, kTokens * 2)));
    ASSERT_TRUE(Ok(backend().Launch(stream_, WidenTokens{tokens, wide, kTokens, kInt64})));
    ASSERT_TRUE(Ok(backend().Launch(
        stream_, Checksum{wide, kTokens * 8, reinterpret_cast<std::uint64_t*>(sum)})));
    ASSERT_TRUE(Ok(backend().CopyToHost(stream_, &sums[round * 8], sum, 8)));
  }
  ASSERT_TRUE(Ok(backend().SyncStream(stream_)));
  HostRead(sums);
  for (std::size_t round = 0; round < 20; ++round) {
    const std::span<std::byte> from = round % 2 == 0 ? first : second;
    std::vector<std::uint64_t> expected_wide(kTokens);
    std::uint64_t expected = 0;
    auto* as_bytes = reinterpret_cast<std::byte*>(expected_wide.data());
    RunKernelOnHost(WidenTokens{HostRead(from).data(), as_bytes, kTokens, kInt64});
    RunKernelOnHost(Checksum{as_bytes, kTokens * 8, &expected});
    std::uint64_t result = 0;
    std::memcpy(&result, &sums[round * 8], 8);
    EXPECT_EQ(result, expected) << round;
  }
}

TEST_P(KernelsConformance, KernelsRunBehindTheEventsTheirStreamWaitsFor) {
  constexpr std::size_t kBytes = 100'001;
  const DeviceStream copies = NewStream();
  const DeviceEvent copied = NewEvent();
  const DeviceEvent used = NewEvent();
  const std::span<std::byte> from = NewHost(kBytes, 3);
  std::byte* data = NewDevice(kBytes);
  std::byte* sum = NewDevice(8);
  std::uint64_t expected = 0;
  RunKernelOnHost(Checksum{from.data(), kBytes, &expected});
  for (int round = 0; round < 10; ++round) {
    ASSERT_TRUE(Ok(backend().StreamWait(copies, used)));
    ASSERT_TRUE(Ok(backend().Fill(copies, data, kBefore, kBytes)));
    ASSERT_TRUE(Ok(backend().Busy(copies, 200'000)));
    ASSERT_TRUE(Ok(backend().CopyToDevice(copies, data, from.data(), kBytes)));
    ASSERT_TRUE(Ok(backend().Record(copied, copies)));
    ASSERT_TRUE(Ok(backend().StreamWait(stream_, copied)));
    ASSERT_TRUE(Ok(
        backend().Launch(stream_, Checksum{data, kBytes, reinterpret_cast<std::uint64_t*>(sum)})));
    ASSERT_TRUE(Ok(backend().Record(used, stream_)));
    const std::vector<std::byte> result = ReadBack(stream_, sum, 8);
    EXPECT_EQ(std::memcmp(result.data(), &expected, 8), 0) << round;
  }
}

TEST_P(KernelsConformance, KernelsRunOnEveryDevice) {
  if (!HasDevices(2)) GTEST_SKIP() << "there is one device";
  for (int device = 0; device < backend().DeviceCount(); ++device) {
    ASSERT_TRUE(Ok(backend().BindThread(device)));
    const DeviceStream stream = NewStream(device);
    std::byte* tokens = NewFilledDevice(2000, std::byte{0xFF}, device);
    std::byte* wide = NewDevice(4000, device);
    ASSERT_TRUE(Ok(backend().Launch(stream, WidenTokens{tokens, wide, 1000, kInt32})));
    const std::vector<std::byte> result = ReadBack(stream, wide, 4000);
    for (std::size_t i = 0; i < 4000; ++i) {
      ASSERT_EQ(result[i], i % 4 < 2 ? std::byte{0xFF} : std::byte{0}) << device;
    }
  }
}

}  // namespace
}  // namespace ringfeed
