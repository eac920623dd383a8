// Of the call for many copies each declaration that CUDA has had is called with what it asks for.

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "gpu/backends/cuda/batch_copy.h"

namespace ringfeed {
namespace {

struct SeenAttributes {
  cudaMemcpySrcAccessOrder order = cudaMemcpySrcAccessOrderInvalid;
  std::size_t first = 99;
  std::size_t count = 0;
};
SeenAttributes seen;

void CopyAll(void* const* to, const void* const* from, const std::size_t* bytes,
             std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) std::memcpy(to[i], from[i], bytes[i]);
}

cudaError_t Of13(void* const* to, const void* const* from, const std::size_t* bytes,
                 std::size_t count, cudaMemcpyAttributes* attributes, std::size_t* first,
                 std::size_t attribute_count, cudaStream_t) {
  seen = {attributes->srcAccessOrder, *first, attribute_count};
  CopyAll(to, from, bytes, count);
  return cudaSuccess;
}

cudaError_t Of12(void** to, void** from, std::size_t* bytes, std::size_t count,
                 cudaMemcpyAttributes* attributes, std::size_t* first, std::size_t attribute_count,
                 std::size_t* failed, cudaStream_t) {
  seen = {attributes->srcAccessOrder, *first, attribute_count};
  CopyAll(to, from, bytes, count);
  *failed = count - 1;
  return cudaErrorInvalidValue;
}

cudaError_t Of12WithConst(void** to, const void** from, const std::size_t* bytes, std::size_t count,
                          cudaMemcpyAttributes* attributes, std::size_t* first,
                          std::size_t attribute_count, std::size_t*, cudaStream_t) {
  seen = {attributes->srcAccessOrder, *first, attribute_count};
  CopyAll(to, from, bytes, count);
  return cudaSuccess;
}

class MemcpyBatch : public testing::Test {
 protected:
  MemcpyBatch() { seen = {}; }

  template <class Function>
  cudaError_t Call(Function function) {
    return CallMemcpyBatch(function, to_.data(), from_.data(), bytes_.data(), 2, nullptr);
  }
  void ExpectCopied() const {
    EXPECT_EQ(target_, (std::array<int, 3>{7, 8, 9}));
    EXPECT_EQ(seen.order, cudaMemcpySrcAccessOrderStream);
    EXPECT_EQ(seen.first, 0U);
    EXPECT_EQ(seen.count, 1U);
  }

  std::array<int, 3> source_ = {7, 8, 9};
  std::array<int, 3> target_ = {};
  std::array<void*, 2> to_ = {&target_[0], &target_[2]};
  std::array<void*, 2> from_ = {&source_[0], &source_[2]};
  std::array<std::size_t, 2> bytes_ = {2 * sizeof(int), sizeof(int)};
};

TEST_F(MemcpyBatch, AsOf13) {
  EXPECT_EQ(Call(&Of13), cudaSuccess);
  ExpectCopied();
}

TEST_F(MemcpyBatch, AsOf12ItsErrorIsHandedOn) {
  EXPECT_EQ(Call(&Of12), cudaErrorInvalidValue);
  ExpectCopied();
}

TEST_F(MemcpyBatch, AsOf12WhereItSaysConst) {
  EXPECT_EQ(Call(&Of12WithConst), cudaSuccess);
  ExpectCopied();
}

}  // namespace
}  // namespace ringfeed
