#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "readers/parsers/wrappers/wrappers.h"
#include "ringfeed/slot.h"

namespace ringfeed {
namespace {

// Addresses without memory: what is located is not read.
class AddressesAlone {
 public:
  explicit AddressesAlone(std::size_t bytes)
      : data_(mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)),
        bytes_(bytes) {}
  ~AddressesAlone() {
    if (there()) munmap(data_, bytes_);
  }
  AddressesAlone(const AddressesAlone&) = delete;
  AddressesAlone& operator=(const AddressesAlone&) = delete;

  bool there() const { return data_ != MAP_FAILED; }
  const std::byte* data() const { return static_cast<const std::byte*>(data_); }

 private:
  void* const data_;
  const std::size_t bytes_;
};

class SlotParserTest : public testing::Test {
 protected:
  // What is wrong with one instance of a tensor with that level and so many values.
  std::vector<RowFailure> Located(std::size_t offsets, std::size_t values) {
    Instance instance(1);
    Tensor& tensor = instance[0];
    tensor.dtype = DType::kUInt8;
    tensor.shape = {static_cast<std::int64_t>(values)};
    tensor.data = memory_.data();
    tensor.bytes = values;
    tensor.lod = {{reinterpret_cast<const std::int64_t*>(memory_.data()), offsets}};
    const RecordSpan row{reinterpret_cast<const std::byte*>(&instance), sizeof(instance)};
    std::vector<RowFailure> failures;
    const auto scratch = parser_->NewScratch();
    parser_->Locate({&row, 1}, locations_.data(), scratch.get(), &failures);
    return failures;
  }

  static constexpr std::size_t k4Gib = std::size_t{1} << 32;
  const AddressesAlone memory_{k4Gib + 4096};
  const std::shared_ptr<const Parser> parser_ = MakeSlotParser({{"words", DType::kUInt8, {-1}, 1}});
  std::vector<FieldLocation> locations_ = std::vector<FieldLocation>(2);
};

TEST_F(SlotParserTest, WhatIsBelow4GibIsLocatedWhole) {
  if (!memory_.there()) GTEST_SKIP() << "no address space for 4 GiB";
  EXPECT_TRUE(Located(k4Gib / 8, k4Gib - 1).empty());
  EXPECT_EQ(locations_[0].units, k4Gib / 8 - 1);
  EXPECT_EQ(locations_[0].bytes, k4Gib - 8);
  EXPECT_EQ(locations_[1].units, k4Gib - 1);
}

TEST_F(SlotParserTest, ALevelOf4GibIsRefusedAndDoesNotWrapAround) {
  if (!memory_.there()) GTEST_SKIP() << "no address space for 4 GiB";
  for (const std::size_t more : {1U, 2U, 9U}) {
    const std::vector<RowFailure> failures = Located(k4Gib / 8 + more, 5);
    ASSERT_EQ(failures.size(), 1U);
    EXPECT_EQ(failures[0].row, 0U);
    EXPECT_EQ(failures[0].status.code(), StatusCode::kUnsupported);
    EXPECT_NE(failures[0].status.message().find("LoD"), std::string::npos);
  }
}

TEST_F(SlotParserTest, ARowFailsOnceWhateverIsTooLarge) {
  if (!memory_.there()) GTEST_SKIP() << "no address space for 4 GiB";
  EXPECT_EQ(Located(k4Gib / 8 + 1, k4Gib).size(), 1U);
  EXPECT_EQ(Located(2, k4Gib).size(), 1U);
}

}  // namespace
}  // namespace ringfeed
