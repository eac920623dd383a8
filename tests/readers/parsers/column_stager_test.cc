#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

#include "readers/parsers/staged_columns.h"

namespace ringfeed {
namespace {

struct alignas(ColumnStager::kLine) Stage {
  std::byte bytes[512 + ColumnStager::kLine];
};

TEST(ColumnStagerTest, WritesEveryByteOnceAndNothingBeside) {
  std::mt19937_64 random(3);
  auto stage = std::make_unique<Stage>();
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::byte> written;
    std::vector<std::byte> to(8192, std::byte{0xee});
    const std::size_t begin = random() % 200;
    ColumnStager stager(stage->bytes, 512);
    stager.Start(to.data() + begin);
    for (std::uint64_t pieces = random() % 40; pieces != 0; --pieces) {
      std::vector<std::byte> piece(random() % (pieces % 8 == 0 ? 500 : 60));
      if (written.size() + piece.size() > 7000) break;
      for (std::byte& byte : piece) byte = static_cast<std::byte>(random());
      stager.Append(piece.data(), piece.size());
      written.insert(written.end(), piece.begin(), piece.end());
      if (random() % 5 == 0) stager.Flush();
    }
    stager.Finish();
    StreamFence();
    for (std::size_t i = 0; i < to.size(); ++i) {
      const bool inside = i >= begin && i < begin + written.size();
      ASSERT_EQ(to[i], inside ? written[i - begin] : std::byte{0xee}) << i;
    }
  }
}

}  // namespace
}  // namespace ringfeed
