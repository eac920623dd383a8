#include "base/stream_copy.h"

#include <gtest/gtest.h>

#include <vector>

namespace ringfeed {
namespace {

TEST(StreamCopyTest, CopiesExactlyWhatItShould) {
  std::vector<std::byte> from(3000);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 7 + i / 256);
  for (const std::size_t size :
       {0u, 1u, 63u, 64u, 65u, 500u, 511u, 512u, 513u, 576u, 1000u, 2047u, 2900u}) {
    for (const std::size_t at : {0u, 1u, 31u, 63u}) {
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
