#include "ringfeed/export/cuda_array_interface.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ringfeed {
namespace {

// Never read: an address is all that is handed over.
const std::byte* const kDeviceAddress = reinterpret_cast<const std::byte*>(0x7f0000000100);

Tensor OnDevice(DType dtype, const Shape& shape) {
  Tensor tensor;
  tensor.dtype = dtype;
  tensor.shape = shape;
  tensor.data = kDeviceAddress;
  tensor.bytes = static_cast<std::size_t>(ShapeElements(shape)) * DTypeBytes(dtype);
  tensor.place = {DeviceType::kCuda, 1};
  return tensor;
}

CudaArrayInterface Describe(const Tensor& tensor,
                            std::optional<std::uintptr_t> stream = std::nullopt) {
  CudaArrayInterface array;
  const Status described = DescribeCudaArray(tensor, stream, &array);
  EXPECT_TRUE(described.ok()) << described.ToString();
  return array;
}

TEST(CudaArrayInterfaceTest, FieldsAreThoseOfVersion3) {
  const CudaArrayInterface array = Describe(OnDevice(kFloat32, {2, 3, 4}));
  EXPECT_EQ(array.version, 3);
  EXPECT_EQ(array.shape, (Shape{2, 3, 4}));
  EXPECT_EQ(array.typestr, "<f4");
  EXPECT_EQ(array.data, 0x7f0000000100U);
  EXPECT_TRUE(array.read_only);
  EXPECT_EQ(array.strides, (std::vector<std::int64_t>{48, 16, 4})) << "in bytes";
  EXPECT_EQ(array.stream, std::nullopt);
}

TEST(CudaArrayInterfaceTest, EveryDTypeButBfloat16HasItsName) {
  const std::map<DType, std::string> names = {
      {kBool, "|b1"},  {kUInt8, "|u1"},   {kInt8, "|i1"},    {kUInt16, "<u2"},
      {kInt16, "<i2"}, {kUInt32, "<u4"},  {kInt32, "<i4"},   {kUInt64, "<u8"},
      {kInt64, "<i8"}, {kFloat16, "<f2"}, {kFloat32, "<f4"}, {kFloat64, "<f8"}};
  EXPECT_EQ(names.size(), 12U);
  for (const auto& [dtype, name] : names) {
    EXPECT_EQ(Describe(OnDevice(dtype, {1})).typestr, name) << DTypeName(dtype);
  }
}

TEST(CudaArrayInterfaceTest, Bfloat16IsUnsupported) {
  CudaArrayInterface array;
  array.data = 42;
  const Status described = DescribeCudaArray(OnDevice(kBFloat16, {1}), std::nullopt, &array);
  EXPECT_EQ(described.code(), StatusCode::kUnsupported);
  EXPECT_NE(described.message().find("bfloat16"), std::string::npos);
  EXPECT_EQ(array.data, 42U) << "a refusal leaves it alone";
}

TEST(CudaArrayInterfaceTest, StreamsAreHandedOnButNever0) {
  const Tensor tensor = OnDevice(kUInt8, {1});
  EXPECT_EQ(Describe(tensor, CudaArrayInterface::kLegacyStream).stream, 1U);
  EXPECT_EQ(Describe(tensor, CudaArrayInterface::kPerThreadStream).stream, 2U);
  EXPECT_EQ(Describe(tensor, 0x5500U).stream, 0x5500U);
  CudaArrayInterface array;
  const Status described = DescribeCudaArray(tensor, 0U, &array);
  EXPECT_EQ(described.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(described.message().find("stream 0"), std::string::npos);
}

TEST(CudaArrayInterfaceTest, WithoutElementsTheAddressIs0) {
  const CudaArrayInterface array = Describe(OnDevice(kInt16, {0, 5}));
  EXPECT_EQ(array.data, 0U);
  EXPECT_EQ(array.strides, (std::vector<std::int64_t>{10, 2}));
}

TEST(CudaArrayInterfaceTest, MemoryThatIsNotCudasIsRefused) {
  for (const Place place : {Place{}, Place{DeviceType::kEmulated, 2}}) {
    Tensor tensor = OnDevice(kUInt8, {1});
    tensor.place = place;
    CudaArrayInterface array;
    const Status described = DescribeCudaArray(tensor, std::nullopt, &array);
    EXPECT_EQ(described.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(described.message().find(PlaceName(place)), std::string::npos);
  }
}

}  // namespace
}  // namespace ringfeed
