#include "base/stream_copy.h"

#include <gtest/gtest.h>

#include <vector>

namespace ringfeed {
namespace {

TEST(StreamCopyTest, CopiesExactlyWhatItShould) {
  std::vector<std::byte> from(3000);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 7 + i / 256);
  for (const std::size_t size : {0, 1, 63, 64, 65, 500, 511, 512, 513, 576, 1000, 2047, 2900}) {
    for (const std::size_t at : {0, 1, 31, 63}) {
      std::vector<std::byte> to(3200, std::byte{0xee});
      StreamCopy(to.data() + at, from.data() + at % 3, size);
      StreamFence();
      for (std::size_t i = 0; i < to.size(); ++i) {
        const bool inside = i >= at && i < at + size;
        ASSERT_EQ(to[i], inside ? from[i - at + at % 3] : std::byte{0xee}) << size << " " << at;
      }
    }
  }
}

}  // namespace
}  // namespace ringfeed
