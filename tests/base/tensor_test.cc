#include "ringfeed/tensor.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace ringfeed {
namespace {

TEST(TensorTest, LiesInHostMemoryUnlessItSaysOtherwise) {
  EXPECT_EQ(Tensor().place, (Place{DeviceType::kCpu, 0}));
}

TEST(PlaceTest, NamesArePlacesAgain) {
  EXPECT_EQ(PlaceName({}), "CPU");
  EXPECT_EQ(PlaceName({DeviceType::kCuda, 0}), "CUDA:0");
  EXPECT_EQ(PlaceName({DeviceType::kEmulated, 12}), "EMU:12");
  for (const Place place :
       {Place{}, Place{DeviceType::kCuda, 0}, Place{DeviceType::kEmulated, 12}}) {
    EXPECT_EQ(PlaceOfName(PlaceName(place)), place);
  }
}

TEST(PlaceTest, WhatIsWrittenOtherwiseIsNoPlace) {
  for (const std::string name :
       {"", "cpu", "CPU:0", "CUDA", "CUDA:", "CUDA:x", "CUDA:1x", "CUDA:-1", "CUDA:-0", "CUDA:+1",
        "CUDA: 1", "CUDA:01", "CUDA:99999999999", "EMU", "EMU:", "TPU:0"}) {
    EXPECT_EQ(PlaceOfName(name), std::nullopt) << name;
  }
}

}  // namespace
}  // namespace ringfeed
