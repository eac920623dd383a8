#include "ringfeed/export/dlpack.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace ringfeed::dlpack {
namespace {

constexpr std::array<DType, 13> kAllDTypes = {kBool,     kUInt8,   kInt8,   kUInt16, kInt16,
                                              kUInt32,   kInt32,   kUInt64, kInt64,  kFloat16,
                                              kBFloat16, kFloat32, kFloat64};

/// A tensor of ascending bytes, with an owner whose shares a test can count.
struct Source {
  explicit Source(DType dtype, Shape shape) {
    tensor.dtype = dtype;
    tensor.shape = std::move(shape);
    tensor.bytes = static_cast<std::size_t>(ShapeElements(tensor.shape)) * DTypeBytes(dtype);
    memory->resize(std::max<std::size_t>(tensor.bytes, 1));
    for (std::size_t i = 0; i < memory->size(); ++i) (*memory)[i] = static_cast<std::byte>(i);
    tensor.data = memory->data();
    tensor.owner = memory;
  }
  // Shares beside the two of this struct.
  long shares() const { return memory.use_count() - 2; }

  std::shared_ptr<std::vector<std::byte>> memory = std::make_shared<std::vector<std::byte>>();
  Tensor tensor;
};

std::vector<std::int64_t> Strides(const DLTensor& view) {
  return {view.strides, view.strides + view.ndim};
}
std::vector<std::int64_t> Dimensions(const DLTensor& view) {
  return {view.shape, view.shape + view.ndim};
}

TEST(DlpackTest, TheTensorIsDescribedNotCopied) {
  const Source source(kInt32, {2, 3, 4});
  DLManagedTensorVersioned* const exported = ExportVersioned(source.tensor);
  EXPECT_EQ(exported->version.major, 1U);
  EXPECT_EQ(exported->version.minor, 2U);
  const DLTensor& view = exported->dl_tensor;
  EXPECT_EQ(view.data, source.memory->data());
  EXPECT_EQ(view.byte_offset, 0U);
  EXPECT_EQ(view.device, (DLDevice{kDLCPU, 0}));
  EXPECT_EQ(view.dtype, (DLDataType{kDLInt, 32, 1}));
  EXPECT_EQ(Dimensions(view), (std::vector<std::int64_t>{2, 3, 4}));
  EXPECT_EQ(Strides(view), (std::vector<std::int64_t>{12, 4, 1}));
  exported->deleter(exported);
}

TEST(DlpackTest, TheUnversionedExportDescribesTheSame) {
  const Source source(kBFloat16, {5, 2});
  DLManagedTensor* const exported = ExportUnversioned(source.tensor);
  EXPECT_EQ(exported->dl_tensor.data, source.memory->data());
  EXPECT_EQ(exported->dl_tensor.dtype, (DLDataType{kDLBfloat, 16, 1}));
  EXPECT_EQ(Dimensions(exported->dl_tensor), (std::vector<std::int64_t>{5, 2}));
  EXPECT_EQ(Strides(exported->dl_tensor), (std::vector<std::int64_t>{2, 1}));
  exported->deleter(exported);
  EXPECT_EQ(source.shares(), 0);
}

// What a consumer in C sees: bytes at the places that DLPack's header gives them, on 64-bit
// machines, read without ringfeed's structures.
TEST(DlpackTest, BytesLieWhereConsumersLookForThem) {
  const Source source(kFloat64, {7});
  DLManagedTensorVersioned* const exported = ExportVersioned(source.tensor);
  std::array<std::uint64_t, 10> words{};
  std::memcpy(words.data(), exported, sizeof(words));
  EXPECT_EQ(words[0], 1U | std::uint64_t{2} << 32) << "version";
  EXPECT_NE(words[2], 0U) << "deleter";
  EXPECT_EQ(words[3], 1U) << "flags: read-only";
  EXPECT_EQ(words[4], reinterpret_cast<std::uintptr_t>(source.memory->data())) << "data";
  EXPECT_EQ(words[5], 1U) << "device: type 1, number 0";
  EXPECT_EQ(words[6], 1U | std::uint64_t{2 | 64 << 8 | 1 << 16} << 32) << "ndim, dtype";
  EXPECT_EQ(*reinterpret_cast<const std::int64_t*>(words[7]), 7) << "shape";
  EXPECT_EQ(*reinterpret_cast<const std::int64_t*>(words[8]), 1) << "strides";
  EXPECT_EQ(words[9], 0U) << "byte_offset";
  exported->deleter(exported);
}

TEST(DlpackTest, WritingIsForbiddenUnlessItIsAllowed) {
  const Source source(kUInt8, {4});
  DLManagedTensorVersioned* const guarded = ExportVersioned(source.tensor);
  EXPECT_EQ(guarded->flags, kReadOnlyFlag);
  guarded->deleter(guarded);
  DLManagedTensorVersioned* const open = ExportVersioned(source.tensor, {.read_only = false});
  EXPECT_EQ(open->flags, 0U);
  open->deleter(open);
}

TEST(DlpackTest, TheMemoryLivesUntilTheDeleterRuns) {
  auto source = std::make_optional<Source>(kUInt8, Shape{3});
  const std::weak_ptr<void> memory = source->memory;
  DLManagedTensorVersioned* const first = ExportVersioned(source->tensor);
  DLManagedTensor* const second = ExportUnversioned(source->tensor);
  EXPECT_EQ(source->shares(), 2);
  source.reset();
  EXPECT_EQ(static_cast<const std::byte*>(first->dl_tensor.data)[2], std::byte{2});
  first->deleter(first);
  EXPECT_FALSE(memory.expired()) << "the other one has it still";
  second->deleter(second);
  EXPECT_TRUE(memory.expired());
}

TEST(DlpackTest, TheShapeIsTheExportsOwn) {
  std::optional<Source> source(std::in_place, kUInt8, Shape{2, 2});
  DLManagedTensorVersioned* const exported = ExportVersioned(source->tensor);
  source->tensor.shape.assign(2, 77);
  source.reset();
  EXPECT_EQ(Dimensions(exported->dl_tensor), (std::vector<std::int64_t>{2, 2}));
  exported->deleter(exported);
}

TEST(DlpackTest, AnyThreadMayCallTheDeleter) {
  const Source source(kUInt8, {1});
  std::vector<std::thread> consumers;
  for (int i = 0; i < 8; ++i) {
    DLManagedTensorVersioned* const exported = ExportVersioned(source.tensor);
    consumers.emplace_back([exported] { exported->deleter(exported); });
  }
  for (std::thread& consumer : consumers) consumer.join();
  EXPECT_EQ(source.shares(), 0);
}

TEST(DlpackTest, WithoutElementsThereIsNoDataButStrides) {
  const Source source(kFloat32, {3, 0, 2});
  DLManagedTensorVersioned* const exported = ExportVersioned(source.tensor);
  EXPECT_EQ(exported->dl_tensor.data, nullptr);
  EXPECT_EQ(Dimensions(exported->dl_tensor), (std::vector<std::int64_t>{3, 0, 2}));
  EXPECT_EQ(Strides(exported->dl_tensor), (std::vector<std::int64_t>{2, 2, 1}));
  exported->deleter(exported);
}

TEST(DlpackTest, AScalarHasNoDimensions) {
  const Source source(kInt64, {});
  DLManagedTensorVersioned* const exported = ExportVersioned(source.tensor);
  EXPECT_EQ(exported->dl_tensor.ndim, 0);
  EXPECT_EQ(exported->dl_tensor.data, source.memory->data());
  exported->deleter(exported);
}

TEST(DlpackTest, DTypesGoBothWays) {
  for (const DType dtype : kAllDTypes) {
    const DLDataType type = DataTypeOf(dtype);
    EXPECT_EQ(type.bits, DTypeBytes(dtype) * 8) << DTypeName(dtype);
    EXPECT_EQ(type.lanes, 1) << DTypeName(dtype);
    EXPECT_EQ(DTypeOf(type), dtype) << DTypeName(dtype);
  }
  EXPECT_EQ(DataTypeOf(kBool), (DLDataType{kDLBool, 8, 1}));
  EXPECT_EQ(DataTypeOf(kUInt16), (DLDataType{kDLUInt, 16, 1}));
  EXPECT_EQ(DataTypeOf(kFloat16), (DLDataType{kDLFloat, 16, 1}));
  EXPECT_EQ(DataTypeOf(kBFloat16), (DLDataType{kDLBfloat, 16, 1}));
}

TEST(DlpackTest, DTypesThatRingfeedHasNotAreNone) {
  constexpr std::uint8_t kComplex = 5;
  for (const DLDataType type :
       {DLDataType{kDLFloat, 32, 4}, DLDataType{kComplex, 64, 1}, DLDataType{kDLInt, 4, 1},
        DLDataType{kDLFloat, 8, 1}, DLDataType{kDLBfloat, 32, 1}, DLDataType{99, 8, 1}}) {
    EXPECT_EQ(DTypeOf(type), std::nullopt) << int{type.code} << " " << int{type.bits};
  }
}

TEST(DlpackTest, MemoryIsWhereTheTensorSays) {
  Source source(kUInt8, {4});
  const auto device_of = [&](const ExportOptions& options) {
    DLManagedTensorVersioned* const exported = ExportVersioned(source.tensor, options);
    const DLDevice device = exported->dl_tensor.device;
    exported->deleter(exported);
    return device;
  };
  EXPECT_EQ(device_of({}), (DLDevice{kDLCPU, 0}));
  EXPECT_EQ(device_of({.pinned = true}), (DLDevice{kDLCUDAHost, 0}));
  source.tensor.place = {DeviceType::kCuda, 3};
  EXPECT_EQ(device_of({}), (DLDevice{kDLCUDA, 3}));
  EXPECT_EQ(device_of({.pinned = true}), (DLDevice{kDLCUDA, 3})) << "only host memory is pinned";
  source.tensor.place = {DeviceType::kEmulated, 1};
  EXPECT_EQ(device_of({}), (DLDevice{kDLCPU, 0})) << "an emulated device has host memory";
}

TEST(DlpackTest, DevicesArePlacesAgain) {
  EXPECT_EQ(PlaceOf({kDLCPU, 0}), Place());
  EXPECT_EQ(PlaceOf({kDLCUDAHost, 0}), Place());
  EXPECT_EQ(PlaceOf({kDLCUDA, 5}), (Place{DeviceType::kCuda, 5}));
  constexpr auto kRocm = static_cast<DLDeviceType>(10);
  EXPECT_EQ(PlaceOf({kRocm, 0}), std::nullopt);
}

}  // namespace
}  // namespace ringfeed::dlpack
