// Blocks of tokens that overlap, through whole chains: every way of reading, and orders by number.

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "ringfeed/formats.h"
#include "ringfeed/parsers.h"
#include "tests/readers/pipeline_fixture.h"

namespace ringfeed {
namespace {

constexpr std::int64_t kFileTokens = 30'000;
constexpr std::int64_t kBlock = 65;  // and the next token
constexpr std::int64_t kStride = 64;

class TokenWindowsTest : public PipelineTest {
 protected:
  TokenWindowsTest() {
    for (int f = 0; f < 2; ++f) {
      std::vector<std::uint16_t> tokens(static_cast<std::size_t>(kFileTokens));
      std::iota(tokens.begin(), tokens.end(), static_cast<std::uint16_t>(f * kFileTokens));
      files_.push_back(directory_.File(std::to_string(f) + ".bin"));
      std::ofstream(files_.back(), std::ios::binary)
          .write(reinterpret_cast<const char*>(tokens.data()),
                 static_cast<std::streamsize>(2 * tokens.size()));
    }
  }
  static std::string Format(std::int64_t block, std::int64_t stride) {
    return "tokens:u2,block=" + std::to_string(block) + ",stride=" + std::to_string(stride) +
           ",tail=drop";
  }
  OpenOptions Windows(std::int64_t block = kBlock, std::int64_t stride = kStride) const {
    OpenOptions options = Options();
    options.stripe_bytes = 4096;
    options.io.block_bytes = 4096;
    options.format = Format(block, stride);
    return options;
  }
  /// The first tokens of the blocks in their order; each block must have the tokens behind it.
  static std::vector<std::int64_t> FirstTokens(Reader reader, std::int64_t block = kBlock) {
    std::vector<std::int64_t> firsts;
    Instance batch;
    while (reader.TryReadNext(&batch) == ReadResult::kRecord) {
      const auto tokens = batch[0].Values<std::int64_t>();
      for (std::size_t row = 0; row < tokens.size() / static_cast<std::size_t>(block); ++row) {
        const auto begin = tokens.begin() + static_cast<std::ptrdiff_t>(row) * block;
        for (std::int64_t i = 0; i < block; ++i) EXPECT_EQ(begin[i], begin[0] + i);
        firsts.push_back(begin[0]);
      }
    }
    EXPECT_TRUE(reader.status().ok()) << reader.status().ToString();
    return firsts;
  }
  static Reader Parsed(Reader records, std::int64_t block = kBlock) {
    TokensSpec spec;
    spec.dtype = kUInt16;
    spec.shape = {block};
    spec.as = kInt64;
    return Parse(std::move(records), TokensParser(spec));
  }
  static std::vector<std::int64_t> Expected(std::int64_t block, std::int64_t stride) {
    std::vector<std::int64_t> firsts;
    for (int f = 0; f < 2; ++f) {
      for (std::int64_t at = 0; at + block <= kFileTokens; at += stride) {
        firsts.push_back(f * kFileTokens + at);
      }
    }
    return firsts;
  }

  std::vector<std::string> files_;
};

TEST_F(TokenWindowsTest, EveryWayOfReadingGivesTheSameBlocks) {
  for (const auto& [block, stride] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {kBlock, kStride}, {100, 7}, {5000, 4999}}) {
    for (const IoPath path : {IoPath::kPread, IoPath::kMmap, IoPath::kAuto}) {
      OpenOptions options = Windows(block, stride);
      options.io.path = path;
      options.cycle = 1;
      EXPECT_EQ(FirstTokens(Batch(Parsed(OpenFiles(files_, options), block), {.size = 8}), block),
                Expected(block, stride))
          << block << " " << stride;
      std::vector<std::int64_t> shuffled = FirstTokens(
          Batch(Shuffle(Parsed(OpenFiles(files_, options), block), {.window = 50, .seed = 2}),
                {.size = 8}),
          block);
      std::sort(shuffled.begin(), shuffled.end());
      EXPECT_EQ(shuffled, Expected(block, stride));
    }
  }
}

TEST_F(TokenWindowsTest, ByNumberInAnyOrderBlocksAreTheSame) {
  for (const ShuffleMode mode : {ShuffleMode::kGlobal, ShuffleMode::kStripes}) {
    for (const IoPath path : {IoPath::kPread, IoPath::kMmap}) {
      OpenOptions options = Windows();
      options.io.path = path;
      Reader reader = Batch(Shuffle(Parsed(OpenFiles(files_, options)), {.seed = 9, .mode = mode}),
                            {.size = 16});
      std::vector<std::int64_t> firsts = FirstTokens(std::move(reader));
      EXPECT_FALSE(std::is_sorted(firsts.begin(), firsts.end()));
      std::sort(firsts.begin(), firsts.end());
      EXPECT_EQ(firsts, Expected(kBlock, kStride));
    }
  }
}

TEST_F(TokenWindowsTest, AStreamGivesTheSame) {
  for (const std::int64_t stride : {kStride, std::int64_t{5}}) {
    const auto open = [&] {
      const int descriptor = ::open(files_[0].c_str(), O_RDONLY);
      return OpenStreamSource(OpenDescriptor(descriptor, "stream", true), Windows(kBlock, stride));
    };
    std::vector<std::int64_t> expected = Expected(kBlock, stride);
    expected.resize(expected.size() / 2);
    EXPECT_EQ(FirstTokens(Batch(Parsed(open()), {.size = 16})), expected);
    std::vector<std::int64_t> shuffled =
        FirstTokens(Batch(Shuffle(Parsed(open()), {.window = 300, .seed = 1}), {.size = 16}));
    std::sort(shuffled.begin(), shuffled.end());
    EXPECT_EQ(shuffled, expected);
  }
}

TEST_F(TokenWindowsTest, RecordsAreNotWrittenBackAsBlocksThatOverlap) {
  EXPECT_FALSE(OpenRecordWriter(directory_.File("w.bin"), Format(kBlock, kStride)).status.ok());
}

}  // namespace
}  // namespace ringfeed
