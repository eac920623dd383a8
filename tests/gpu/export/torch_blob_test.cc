// LibTorch's names come first, as the header asks for.
#include "tests/gpu/export/fake_torch.h"
// clang-format off
#include "ringfeed/export/torch_blob.h"
// clang-format on

#include <gtest/gtest.h>

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace ringfeed {
namespace {

Tensor TensorOf(DType dtype, const Shape& shape) {
  Tensor tensor;
  tensor.dtype = dtype;
  tensor.shape = shape;
  tensor.bytes = static_cast<std::size_t>(ShapeElements(shape)) * DTypeBytes(dtype);
  const auto memory = std::make_shared<std::vector<std::byte>>(tensor.bytes + 1);
  tensor.data = memory->data();
  tensor.owner = memory;
  return tensor;
}

TEST(TorchBlobTest, TheTensorIsSharedNotCopied) {
  const Tensor tensor = TensorOf(kFloat32, {2, 3});
  const at::Tensor blob = TorchBlob(tensor);
  EXPECT_EQ(blob.storage.get(), tensor.data);
  EXPECT_EQ(blob.sizes, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(blob.options.scalar_type, at::ScalarType::Float);
  EXPECT_EQ(blob.options.where.type, at::kCPU);
  EXPECT_EQ(blob.options.where.index, -1);
  EXPECT_FALSE(blob.options.grad);
}

TEST(TorchBlobTest, TheOwnerIsDroppedWithTheLastShare) {
  std::optional<Tensor> tensor = TensorOf(kUInt8, {4});
  const std::weak_ptr<const void> memory = tensor->owner;
  std::optional<at::Tensor> blob = TorchBlob(*tensor);
  std::optional<at::Tensor> view = blob;
  tensor.reset();
  EXPECT_FALSE(memory.expired());
  blob.reset();
  EXPECT_FALSE(memory.expired());
  view.reset();
  EXPECT_TRUE(memory.expired());
}

TEST(TorchBlobTest, TheDeviceIsTheTensors) {
  Tensor tensor = TensorOf(kUInt8, {4});
  tensor.place = {DeviceType::kCuda, 2};
  EXPECT_EQ(TorchBlob(tensor).options.where.type, at::kCUDA);
  EXPECT_EQ(TorchBlob(tensor).options.where.index, 2);
  tensor.place = {DeviceType::kEmulated, 2};
  EXPECT_EQ(TorchBlob(tensor).options.where.type, at::kCPU) << "emulated devices have host memory";
}

TEST(TorchBlobTest, EveryDTypeHasItsScalarType) {
  using at::ScalarType;
  const std::map<DType, ScalarType> types = {
      {kBool, ScalarType::Bool},         {kUInt8, ScalarType::Byte},
      {kInt8, ScalarType::Char},         {kUInt16, ScalarType::UInt16},
      {kInt16, ScalarType::Short},       {kUInt32, ScalarType::UInt32},
      {kInt32, ScalarType::Int},         {kUInt64, ScalarType::UInt64},
      {kInt64, ScalarType::Long},        {kFloat16, ScalarType::Half},
      {kBFloat16, ScalarType::BFloat16}, {kFloat32, ScalarType::Float},
      {kFloat64, ScalarType::Double}};
  EXPECT_EQ(types.size(), 13U);
  for (const auto& [dtype, type] : types) {
    EXPECT_EQ(TorchBlob(TensorOf(dtype, {1})).options.scalar_type, type) << DTypeName(dtype);
  }
}

TEST(TorchBlobTest, WithoutElementsNoAddressIsLookedUp) {
  Tensor tensor = TensorOf(kInt64, {0, 8});
  tensor.data = nullptr;
  tensor.place = {DeviceType::kCuda, 1};
  const at::Tensor blob = TorchBlob(tensor);
  EXPECT_EQ(blob.storage, nullptr);
  EXPECT_EQ(blob.sizes, (std::vector<std::int64_t>{0, 8}));
  EXPECT_EQ(blob.options.where.type, at::kCUDA);
  EXPECT_EQ(blob.options.scalar_type, at::ScalarType::Long);
}

}  // namespace
}  // namespace ringfeed
