#include "ringfeed/slot.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

namespace ringfeed {
namespace {

constexpr std::array<std::byte, 4096> kBytes{};

Tensor Make(DType dtype, const Shape& shape) {
  Tensor tensor;
  tensor.dtype = dtype;
  tensor.shape = shape;
  tensor.data = kBytes.data();
  tensor.bytes = static_cast<std::size_t>(ShapeElements(shape)) * DTypeBytes(dtype);
  return tensor;
}

const std::vector<SlotSpec> kSlots = {{"image", kFloat32, {-1, 3}, 0},
                                      {"words", kInt64, {-1, 1}, 2}};

Instance Good() {
  static const std::vector<std::int64_t> kOuter = {0, 1, 3};
  static const std::vector<std::int64_t> kInner = {0, 2, 2, 5};
  Instance instance = {Make(kFloat32, {4, 3}), Make(kInt64, {5, 1})};
  instance[1].lod = {kOuter, kInner};
  return instance;
}

std::string Complaint(const Instance& instance) {
  const Status status = CheckInstance(kSlots, instance);
  return status.ok() ? "" : status.message();
}

TEST(SlotTest, NegativeDimensionsStandForAnyNumber) {
  EXPECT_EQ(Complaint(Good()), "");
  Instance instance = Good();
  instance[0] = Make(kFloat32, {0, 3});
  EXPECT_EQ(Complaint(instance), "");
}

TEST(SlotTest, ErrorsNameSlotExpectedAndFound) {
  Instance instance = Good();
  instance[0] = Make(kFloat32, {4, 2});
  EXPECT_EQ(Complaint(instance), "slot 0 \"image\": expected float32[-1, 3], found float32[4, 2]");
  instance[0] = Make(kInt32, {4, 3});
  EXPECT_EQ(Complaint(instance), "slot 0 \"image\": expected float32[-1, 3], found int32[4, 3]");
  instance[0] = Make(kFloat32, {12});
  EXPECT_EQ(Complaint(instance), "slot 0 \"image\": expected float32[-1, 3], found float32[12]");
  instance = Good();
  instance[1].lod.pop_back();
  EXPECT_EQ(
      Complaint(instance),
      "slot 1 \"words\": expected int64[-1, 1] with 2 levels of LoD, found int64[5, 1] with 1 "
      "levels of LoD");
  instance = Good();
  instance.pop_back();
  EXPECT_EQ(Complaint(instance), "an instance of 2 slots was expected, found 1 tensors");
  instance = Good();
  instance[0].bytes -= 1;
  EXPECT_EQ(Complaint(instance), "slot 0 \"image\": float32[4, 3] has 48 bytes, found 47");
}

TEST(SlotTest, LevelsThatDoNotCountTheirSequencesAreRefused) {
  const std::vector<SlotSpec> slots = {{"words", kInt64, {-1, 1}, 1}};
  const std::vector<std::pair<std::vector<std::int64_t>, std::string>> wrong = {
      {{}, "does not start with 0"},
      {{1, 5}, "does not start with 0"},
      {{0, 4, 3, 5}, "does not ascend"},
      {{0, 2, 2, 4}, "ends at 4, not at the 5 rows"}};
  for (const auto& [level, why] : wrong) {
    Instance instance = {Make(kInt64, {5, 1})};
    instance[0].lod = {level};
    EXPECT_EQ(CheckInstance(slots, instance).message(),
              "slot 0 \"words\": level 0 of its LoD " + why);
  }
  Instance instance = Good();
  const std::vector<std::int64_t> outer = {0, 1, 2};
  instance[1].lod[0] = outer;
  EXPECT_EQ(Complaint(instance),
            "slot 1 \"words\": level 0 of its LoD ends at 2, not at the 3 sequences of the next "
            "level");
}

}  // namespace
}  // namespace ringfeed
