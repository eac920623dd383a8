#include "gpu/feed/copy_plan.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/crc32c.h"
#include "gpu/piece_chunks.h"
#include "tests/gpu/feed/numbered_batches.h"

namespace ringfeed {
namespace {

std::shared_ptr<Arena> SmallArena() { return Arena::Create({.bytes = std::size_t{4} << 20}); }

/// What a device has once the plan was carried out in host memory.
struct Slot {
  std::vector<std::uint64_t> words;
  std::byte* data() { return reinterpret_cast<std::byte*>(words.data()); }
};

Slot CarryOut(const CopyPlan& plan) {
  Slot slot{std::vector<std::uint64_t>(plan.layout().slot_bytes() / 8 + 1, 0xEEEEEEEEEEEEEEEE)};
  for (const PlannedPiece& piece : plan.layout().pieces()) {
    std::memcpy(slot.data() + piece.to, piece.from, piece.bytes);
  }
  std::vector<DeviceKernel> kernels;
  plan.AddKernels(slot.data(), &kernels);
  for (const DeviceKernel& kernel : kernels) {
    EXPECT_TRUE(CheckKernel(kernel).ok());
    RunKernelOnHost(kernel);
  }
  return slot;
}

void ExpectSame(const Instance& batch, const Instance& copied) {
  ASSERT_EQ(copied.size(), batch.size());
  for (std::size_t f = 0; f < batch.size(); ++f) {
    EXPECT_EQ(copied[f].shape, batch[f].shape);
    ASSERT_EQ(copied[f].bytes, batch[f].bytes);
    EXPECT_EQ(std::memcmp(copied[f].data, batch[f].data, batch[f].bytes), 0);
    ASSERT_EQ(copied[f].lod.size(), batch[f].lod.size());
    for (std::size_t level = 0; level < batch[f].lod.size(); ++level) {
      EXPECT_TRUE(std::equal(copied[f].lod[level].begin(), copied[f].lod[level].end(),
                             batch[f].lod[level].begin(), batch[f].lod[level].end()));
    }
  }
}

TEST(SlotLayoutTest, RoomBeginsAtMultiplesAndWhatIsInNoArenaIsStaged) {
  SlotLayout layout;
  const std::vector<std::byte> anywhere(300);
  EXPECT_EQ(layout.AddWhole(anywhere.data(), 300), 0u);
  EXPECT_EQ(layout.AddRoom(1), 512u);
  const auto arena = SmallArena();
  const SlabRun run = arena->Allocate(100);
  EXPECT_EQ(layout.AddWhole(run.data, 100), 768u);
  EXPECT_EQ(layout.slot_bytes(), 868u);
  EXPECT_EQ(layout.copied_bytes(), 400u);
  ASSERT_EQ(layout.pieces().size(), 2u);
  EXPECT_TRUE(layout.pieces()[0].staged);
  EXPECT_FALSE(layout.pieces()[1].staged);
  EXPECT_EQ(layout.staging_bytes(), 300u);
  arena->Free(run);
}

TEST(SlotFieldsTest, ATransformHasItsOutputInRoomOfItsOwn) {
  const std::vector<std::uint16_t> tokens = {1, 2, 40'000};
  SlotLayout layout;
  SlotFields fields;
  ASSERT_TRUE(fields.Take({MakeTensor(tokens)}).ok());
  fields[0].offset = layout.AddWhole(tokens.data(), tokens.size() * 2);
  const FieldTransform widen = WidenField{0, DType::kInt32};
  ASSERT_TRUE(fields.Transform(widen, &layout).ok());
  EXPECT_EQ(fields.Transform(widen, &layout).code(), StatusCode::kInvalidArgument);
  std::vector<std::byte> slot(layout.slot_bytes());
  std::memcpy(slot.data(), tokens.data(), tokens.size() * 2);
  std::vector<DeviceKernel> kernels;
  fields.AddKernels(slot.data(), &kernels);
  RunKernelOnHost(kernels.front());
  Instance tensors;
  fields.MakeTensors(slot.data(), {}, &tensors);
  std::int32_t last = 0;
  std::memcpy(&last, tensors[0].data + 8, sizeof(last));
  EXPECT_EQ(last, 40'000);
  EXPECT_EQ(tensors[0].dtype, DType::kInt32);
}

/// A slot in host memory, after its copies.
std::byte* FilledSlot(const SlotLayout& layout, std::vector<std::uint64_t>* words) {
  words->resize(layout.slot_bytes() / 8 + 1);
  auto* const slot = reinterpret_cast<std::byte*>(words->data());
  for (const PlannedPiece& piece : layout.pieces()) {
    std::memcpy(slot + piece.to, piece.from, piece.bytes);
  }
  return slot;
}

TEST(LeftRowPlanTest, NeighboursComeTogetherAndAKernelTakesThemToTheirPlaces) {
  const std::vector<std::byte> read(4096, std::byte{7});
  const std::vector<std::byte> field(200);
  auto* const to = const_cast<std::byte*>(field.data());
  const std::vector<PendingCopy> pending = {{to, read.data() + 1000, 100, read.data()},
                                            {to + 100, read.data() + 1110, 100, read.data()}};
  SlotLayout layout;
  LeftRowPlan rows;
  EXPECT_EQ(rows.AddField(field.data(), 200, 0, pending, &layout), 0u);
  rows.Make(LeftRows::kTogether, TransferPlanner(), {}, &layout);
  EXPECT_TRUE(rows.has_runs());
  EXPECT_EQ(rows.together_bytes(), 200u);
  ASSERT_EQ(layout.pieces().size(), 2u) << "the run and the table";
  std::vector<std::uint64_t> words;
  std::byte* const slot = FilledSlot(layout, &words);
  std::vector<DeviceKernel> kernels;
  rows.AddKernels(slot, &kernels);
  ASSERT_EQ(kernels.size(), 1u);
  RunKernelOnHost(kernels.front());
  EXPECT_EQ(std::memcmp(slot, read.data(), 200), 0);
}

TEST(LeftRowPlanTest, LongRowsAreSharedByAllOfADevice) {
  const std::size_t bytes = (std::size_t{3} << 20) + 5;
  std::vector<std::byte> read(bytes + 20);
  for (std::size_t i = 0; i < read.size(); ++i) read[i] = static_cast<std::byte>(i * 167 + i / 251);
  const std::vector<std::byte> field(bytes + 4);
  auto* const to = const_cast<std::byte*>(field.data());
  // The first row is a part of its payload, the second all of its own.
  const std::vector<PendingCopy> pending = {
      {to, read.data() + 3, bytes, read.data(), nullptr, 0},
      {to + bytes, read.data() + bytes + 10, 4, read.data(), nullptr, 1}};
  const std::vector<PendingSum> sums = {{read.data(), bytes + 10}, {read.data() + bytes + 10, 4}};
  SlotLayout layout;
  LeftRowPlan rows;
  rows.AddField(field.data(), field.size(), 0, pending, &layout);
  rows.Make(LeftRows::kTogether, TransferPlanner(), sums, &layout);
  std::vector<std::uint64_t> words;
  std::byte* const slot = FilledSlot(layout, &words);
  std::vector<DeviceKernel> kernels;
  rows.AddKernels(slot, &kernels);
  ASSERT_EQ(kernels.size(), 2u);
  const auto& gather = std::get<GatherPieces>(kernels[0]);
  for (const GatheredPiece& piece : std::span(gather.pieces, gather.count)) {
    EXPECT_LE(piece.bytes, kChunkBytes);
  }
  for (const SummedPiece& piece : rows.summed()) EXPECT_LE(piece.bytes, kChunkBytes);
  for (const DeviceKernel& kernel : kernels) RunKernelOnHost(kernel);
  EXPECT_EQ(std::memcmp(slot, read.data() + 3, bytes), 0);
  std::uint32_t shares[2];
  ASSERT_EQ(rows.sums_bytes(), sizeof(shares));
  std::memcpy(shares, slot + rows.sums_at(), sizeof(shares));
  EXPECT_EQ(shares[0], ShiftCrc32c(Crc32c({read.data() + 3, bytes}), 7));
  EXPECT_EQ(shares[1], Crc32c({read.data() + bytes + 10, 4}));
}

/// Nobody asks it here.
class NoFarMemory final : public FarMemory {
 public:
  Status CopyToHost(std::byte*, const std::byte*, std::size_t) override { return {}; }
};

TEST(LeftRowPlanTest, RowsInTheDevicesMemoryAreTakenByOneGather) {
  NoFarMemory far;
  std::vector<std::byte> slabs(3000);
  for (std::size_t i = 0; i < slabs.size(); ++i) slabs[i] = static_cast<std::byte>(i * 167);
  const std::byte* const first = slabs.data();
  const std::byte* const second = slabs.data() + 2000;
  const std::vector<std::byte> field(400);
  auto* const to = const_cast<std::byte*>(field.data());
  const std::vector<PendingCopy> pending = {{to, second + 500, 100, second, &far},
                                            {to + 100, first + 300, 100, first, &far},
                                            {to + 200, second + 10, 100, second, &far},
                                            {to + 300, first + 150, 100, first, &far}};
  SlotLayout layout;
  LeftRowPlan rows;
  rows.AddField(field.data(), field.size(), 0, pending, &layout);
  rows.Make(LeftRows::kTogether, TransferPlanner(), {}, &layout);
  EXPECT_EQ(rows.direct_bytes(), 400U);
  std::vector<std::uint64_t> words;
  std::byte* const slot = FilledSlot(layout, &words);
  std::vector<DeviceKernel> kernels;
  rows.AddKernels(slot, &kernels);
  ASSERT_EQ(kernels.size(), 1U);
  const std::vector<MemoryAccess> accesses = KernelAccesses(kernels.front());
  ASSERT_EQ(accesses.size(), 4U);
  EXPECT_EQ(accesses[0].data, first + 150);
  EXPECT_EQ(accesses[0].bytes, 250U);
  EXPECT_EQ(accesses[1].data, second + 10);
  EXPECT_EQ(accesses[1].bytes, 590U);
  RunKernelOnHost(kernels.front());
  for (const PendingCopy& copy : pending) {
    EXPECT_EQ(std::memcmp(slot + (copy.to - to), copy.from, copy.bytes), 0);
  }
}

TEST(CopyPlanTest, ABatchInOnePieceOfAnArenaIsOneCopy) {
  const Instance batch = NumberedBatch{3, 40, true}.Make(SmallArena());
  CopyPlan plan;
  ASSERT_TRUE(plan.Make(batch, {}).ok());
  ASSERT_EQ(plan.layout().pieces().size(), 1U);
  EXPECT_FALSE(plan.layout().pieces()[0].staged);
  EXPECT_EQ(plan.layout().staging_bytes(), 0U);
  Slot slot = CarryOut(plan);
  Instance tensors;
  plan.fields().MakeTensors(slot.data(), {}, &tensors);
  ExpectSame(batch, tensors);
  EXPECT_EQ(std::memcmp(plan.fields().OffsetsIn(slot.data(), 1), batch[1].lod[0].data(), 41 * 8),
            0);
  EXPECT_EQ(plan.fields().OffsetsIn(slot.data(), 0), nullptr);
}

TEST(CopyPlanTest, WhatIsInNoArenaIsStaged) {
  const Instance batch = NumberedBatch{3, 40, true}.Make(nullptr);
  CopyPlan plan;
  ASSERT_TRUE(plan.Make(batch, {}).ok());
  EXPECT_EQ(plan.layout().pieces().size(), 3U);
  for (const PlannedPiece& piece : plan.layout().pieces()) {
    EXPECT_TRUE(piece.staged);
    EXPECT_EQ(piece.staging_at, piece.to);  // so one copy does
    EXPECT_LE(piece.staging_at + piece.bytes, plan.layout().staging_bytes());
  }
  Slot slot = CarryOut(plan);
  Instance tensors;
  plan.fields().MakeTensors(slot.data(), {}, &tensors);
  ExpectSame(batch, tensors);
}

TEST(CopyPlanTest, TensorsOfDifferentOwnersAreAPieceEach) {
  const auto arena = SmallArena();
  Instance batch = NumberedBatch{3, 40, false}.Make(arena);
  const Instance other = NumberedBatch{4, 40, false}.Make(arena);
  batch.push_back(other[0]);
  CopyPlan plan;
  ASSERT_TRUE(plan.Make(batch, {}).ok());
  ASSERT_EQ(plan.layout().pieces().size(), 2U);
  EXPECT_FALSE(plan.layout().pieces()[0].staged);
  Slot slot = CarryOut(plan);
  Instance tensors;
  plan.fields().MakeTensors(slot.data(), {}, &tensors);
  ExpectSame(batch, tensors);
}

TEST(CopyPlanTest, ABatchOfNoRowsHasTensorsOfNoBytes) {
  const Instance batch = NumberedBatch{3, 0, true}.Make(nullptr);
  CopyPlan plan;
  ASSERT_TRUE(plan.Make(batch, {}).ok());
  Slot slot = CarryOut(plan);
  Instance tensors;
  plan.fields().MakeTensors(slot.data(), {}, &tensors);
  ExpectSame(batch, tensors);
}

TEST(CopyPlanTest, ABatchOfNoRowsHasAMaskOfNoBytesIfThereIsOne) {
  const Instance batch = NumberedBatch{3, 0, true}.Make(nullptr);
  CopyPlan plan;
  ASSERT_TRUE(plan.Make(batch, {.mask_rows = 0}).ok());
  EXPECT_LE(plan.mask_at(), plan.layout().slot_bytes());
  ASSERT_TRUE(plan.Make(batch, {}).ok());
  EXPECT_EQ(plan.mask_at(), FieldPlace::kNowhere);
}

TEST(CopyPlanTest, WhatAWholeBatchTakesIsKnownByAShortOne) {
  const std::vector<FieldTransform> transforms = {PadField{.field = 1, .length = 7}};
  const auto plan_of = [&](std::int64_t rows, bool transformed, bool masked) {
    CopyPlan plan;
    // Five rows, and any number of times as many, have two values each.
    const Instance batch = NumberedBatch{0, rows, true}.Make(nullptr);
    CopyPlan::Input input;
    if (transformed) input.transforms = transforms;
    if (masked) input.mask_rows = static_cast<std::size_t>(rows);
    EXPECT_TRUE(plan.Make(batch, input).ok());
    return plan;
  };
  for (const bool transformed : {false, true}) {
    for (const bool masked : {false, true}) {
      const CopyPlan few = plan_of(5, transformed, masked);
      for (const std::uint64_t most : {5U, 10U, 500U, 5000U}) {
        const CopyPlan whole = plan_of(static_cast<std::int64_t>(most), transformed, masked);
        EXPECT_GE(few.SlotBytesFor(most, 5), whole.layout().slot_bytes());
        EXPECT_LE(few.SlotBytesFor(most, 5), whole.layout().slot_bytes() + 256);
      }
      EXPECT_EQ(few.SlotBytesFor(~std::uint64_t{0}, 5),
                few.layout().slot_bytes());  // nobody has that
      const CopyPlan none = plan_of(0, transformed, masked);
      EXPECT_GE(none.SlotBytesFor(500, 0), 500 * 4 * sizeof(std::uint32_t));
    }
  }
}

TEST(CopyPlanTest, WhatStandsBetweenFieldsIsLeftOutWhereThereIsNoRoom) {
  const auto arena = SmallArena();
  Instance batch = NumberedBatch{3, 40, true}.Make(arena);
  CopyPlan plan;
  ASSERT_TRUE(plan.Make({batch[0], batch[1]}, {.tight = true}).ok());
  EXPECT_EQ(plan.layout().pieces().size(), 3U);
  EXPECT_FALSE(plan.has_gaps());
  Slot slot = CarryOut(plan);
  Instance tensors;
  plan.fields().MakeTensors(slot.data(), {}, &tensors);
  ExpectSame(batch, tensors);
}

TEST(CopyPlanTest, InAFixedSlotOnlyRaggedValuesMove) {
  constexpr std::uint64_t kMost = 40;
  const auto arena = SmallArena();
  const std::vector<FieldTransform> transforms = {PadField{.field = 1, .length = 7}};
  std::vector<std::size_t> places;
  for (std::uint64_t number = 0; number < 6; ++number) {
    // Five numbers differ in how many ragged values there are; the last one has fewer rows.
    const std::uint64_t rows = number < 5 ? kMost : 7;
    Instance batch = NumberedBatch{number, static_cast<std::int64_t>(rows), true}.Make(arena);
    batch.push_back(batch[0]);  // after the ragged one
    CopyPlan plan;
    ASSERT_TRUE(plan.Make(batch, {.transforms = transforms,
                                  .mask_rows = rows,
                                  .room = {.rows = rows, .most_rows = kMost}})
                    .ok());
    Slot slot = CarryOut(plan);
    Instance tensors;
    plan.fields().MakeTensors(slot.data(), {}, &tensors);
    ExpectSame({batch[0], batch[2]}, {tensors[0], tensors[2]});
    std::vector<std::size_t> now = {plan.mask_at()};
    for (const Tensor& tensor : tensors) {
      now.push_back(static_cast<std::size_t>(tensor.data - slot.data()));
    }
    if (places.empty()) places = now;
    EXPECT_EQ(now, places) << "batch " << number;
    EXPECT_LE(plan.layout().slot_bytes(), plan.SlotBytesFor(kMost, rows));
  }
}

TEST(CopyPlanTest, ARaggedFieldCanBeWidenedOrPadded) {
  const std::shared_ptr<Arena> arena = SmallArena();
  for (const auto& [pads, staged] : {std::pair(false, false), std::pair(true, false),
                                     std::pair(false, true), std::pair(true, true)}) {
    // In one piece, or staged; lengths 0, 1, 2.
    const Instance batch = NumberedBatch{0, 3, true}.Make(staged ? nullptr : arena);
    std::vector<FieldTransform> transforms;
    if (pads) {
      transforms.push_back(PadField{1, 2, {std::byte{9}}});
    } else {
      transforms.push_back(WidenField{1, DType::kInt64});
    }
    CopyPlan plan;
    ASSERT_TRUE(plan.Make(batch, {.transforms = transforms}).ok());
    Slot slot = CarryOut(plan);
    Instance tensors;
    plan.fields().MakeTensors(slot.data(), {}, &tensors);
    if (pads) {
      EXPECT_EQ(tensors[1].shape, (Shape{3, 2}));
      EXPECT_TRUE(tensors[1].lod.empty());
      const auto values = tensors[1].Values<std::uint16_t>();
      EXPECT_EQ(std::vector<std::uint16_t>(values.begin(), values.end()),
                (std::vector<std::uint16_t>{9, 9, 1, 9, 3, 4}));
    } else {
      EXPECT_EQ(tensors[1].dtype, DType::kInt64);
      const auto values = tensors[1].Values<std::int64_t>();
      EXPECT_EQ(std::vector<std::int64_t>(values.begin(), values.end()),
                (std::vector<std::int64_t>{1, 3, 4}));
      EXPECT_EQ(tensors[1].lod[0][3], 3);
    }
  }
}

Instance Images() {
  static const std::vector<std::uint8_t> kPixels = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  Tensor images;
  images.shape = {1, 2, 2, 3};
  images.data = reinterpret_cast<const std::byte*>(kPixels.data());
  images.bytes = kPixels.size();
  return {images};
}

TEST(CopyPlanTest, ImagesAreNormalisedByChannelAndTurned) {
  const std::vector<FieldTransform> transforms = {
      NormalizeField{0, DType::kFloat32, {0, 1, 2}, {1, 1, 10}, true}};
  CopyPlan plan;
  ASSERT_TRUE(plan.Make(Images(), {.transforms = transforms}).ok());
  Slot slot = CarryOut(plan);
  Instance tensors;
  plan.fields().MakeTensors(slot.data(), {}, &tensors);
  EXPECT_EQ(tensors[0].shape, (Shape{1, 3, 2, 2}));
  const auto values = tensors[0].Values<float>();
  EXPECT_EQ(std::vector<float>(values.begin(), values.end()),
            (std::vector<float>{0, 3, 6, 9, 0, 3, 6, 9, 0, 30, 60, 90}));
  EXPECT_EQ(plan.layout().copied_bytes(), 12U);  // a quarter of what is shown
}

/// Two images of 2 by 3 pixels of 2 channels, each with its place.
Instance ImagesAndPlaces() {
  static const std::vector<std::uint8_t> kPixels = {
      0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,  //
      20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31,
  };
  static const std::vector<std::int32_t> kPlaces = {1, 1, 0, -5, 9, 1};
  Tensor images;
  images.shape = {2, 2, 3, 2};
  images.data = reinterpret_cast<const std::byte*>(kPixels.data());
  images.bytes = kPixels.size();
  Tensor places;
  places.dtype = DType::kInt32;
  places.shape = {2, 3};
  places.data = reinterpret_cast<const std::byte*>(kPlaces.data());
  places.bytes = kPlaces.size() * sizeof(std::int32_t);
  return {images, places};
}

NormalizeField CropTo(std::size_t height, std::size_t width, std::optional<std::size_t> crops) {
  NormalizeField crop;
  crop.crop_height = height;
  crop.crop_width = width;
  crop.crops = crops;
  return crop;
}

TEST(CopyPlanTest, ImagesAreCroppedAndMirroredByAFieldBeside) {
  NormalizeField crop = CropTo(1, 2, 1);
  crop.mean = {1};
  for (const bool channels_first : {false, true}) {
    crop.channels_first = channels_first;
    const std::vector<FieldTransform> transforms = {crop};
    CopyPlan plan;
    ASSERT_TRUE(plan.Make(ImagesAndPlaces(), {.transforms = transforms}).ok());
    Slot slot = CarryOut(plan);
    Instance tensors;
    plan.fields().MakeTensors(slot.data(), {}, &tensors);
    EXPECT_EQ(tensors[0].shape, channels_first ? (Shape{2, 2, 1, 2}) : (Shape{2, 1, 2, 2}));
    const auto values = tensors[0].Values<float>();
    EXPECT_EQ(std::vector<float>(values.begin(), values.end()),
              channels_first ? (std::vector<float>{7, 9, 8, 10, 23, 21, 24, 22})
                             : (std::vector<float>{7, 8, 9, 10, 23, 24, 21, 22}));
    const auto places = tensors[1].Values<std::int32_t>();  // it stays
    EXPECT_EQ(std::vector<std::int32_t>(places.begin(), places.end()),
              (std::vector<std::int32_t>{1, 1, 0, -5, 9, 1}));
  }
}

TEST(CopyPlanTest, ImagesAreCroppedInTheMiddleWithoutSuchAField) {
  const std::vector<FieldTransform> transforms = {CropTo(0, 1, {})};
  CopyPlan plan;
  ASSERT_TRUE(plan.Make(ImagesAndPlaces(), {.transforms = transforms}).ok());
  Slot slot = CarryOut(plan);
  Instance tensors;
  plan.fields().MakeTensors(slot.data(), {}, &tensors);
  EXPECT_EQ(tensors[0].shape, (Shape{2, 2, 1, 2}));
  const auto values = tensors[0].Values<float>();
  EXPECT_EQ(std::vector<float>(values.begin(), values.end()),
            (std::vector<float>{2, 3, 8, 9, 22, 23, 28, 29}));
}

std::string RefusalOf(const Instance& batch, const NormalizeField& crop) {
  CopyPlan plan;
  const std::vector<FieldTransform> transforms = {crop};
  const Status status = plan.Make(batch, {.transforms = transforms});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  return status.message();
}

TEST(CopyPlanTest, CropsThatDoNotFitSaySo) {
  Instance batch = ImagesAndPlaces();
  EXPECT_EQ(RefusalOf(batch, CropTo(3, 2, {})),
            "a transform of field 0: a crop of 3 by 2 pixels does not fit into the images of "
            "[2, 2, 3, 2]");
  EXPECT_NE(RefusalOf(batch, CropTo(1, ~std::size_t{0}, {})).find("does not fit"),
            std::string::npos);
  EXPECT_EQ(RefusalOf(batch, CropTo(1, 1, 2)),
            "a transform of field 0: crops is field 2; there are 2 fields, from 0");
  EXPECT_EQ(RefusalOf(batch, CropTo(1, 1, 0)),
            "a transform of field 0: crops, field 0, is to be int32 [2, 3]: top, left and whether "
            "to mirror, of each row; it is uint8 [2, 2, 3, 2]");
  batch[1].shape = {6};
  EXPECT_NE(RefusalOf(batch, CropTo(1, 1, 1)).find("it is int32 [6]"), std::string::npos);
  batch[1].dtype = DType::kFloat32;
  batch[1].shape = {2, 3};
  EXPECT_NE(RefusalOf(batch, CropTo(1, 1, 1)).find("it is float32 [2, 3]"), std::string::npos);
  batch[1].dtype = DType::kInt32;
  const std::vector<std::int64_t> offsets = {0, 1, 2};
  batch[1].lod.push_back({offsets.data(), offsets.size()});
  EXPECT_NE(RefusalOf(batch, CropTo(1, 1, 1)).find("it is ragged, int32"), std::string::npos);
  batch[1].lod.clear();
  batch[0].lod.push_back({offsets.data(), offsets.size()});
  EXPECT_NE(RefusalOf(batch, CropTo(1, 1, {})).find("a ragged field"), std::string::npos);
  batch[0].lod.clear();
  batch[0].shape = {2, 1, 2, 3, 2};
  EXPECT_NE(RefusalOf(batch, CropTo(1, 1, 1)).find("a row is one image"), std::string::npos);
  batch[0].shape = {4, 3, 2};
  EXPECT_NE(RefusalOf(batch, CropTo(1, 1, {})).find("a crop takes rows of"), std::string::npos);
  batch[0].shape = {1, 1, 4, 6};
  EXPECT_NE(RefusalOf(batch, CropTo(1, 1, {})).find("1 to 4 channels"), std::string::npos);
}

TEST(CopyPlanTest, TransformsThatDoNotFitSaySo) {
  const auto refusal = [](const Instance& batch, const FieldTransform& transform) {
    CopyPlan plan;
    const std::vector<FieldTransform> transforms = {transform};
    return plan.Make(batch, {.transforms = transforms}).message();
  };
  const Instance batch = NumberedBatch{0, 3, true}.Make(nullptr);
  EXPECT_NE(refusal(batch, NormalizeField{0}).find("only uint8"), std::string::npos);
  EXPECT_NE(refusal(batch, WidenField{0}).find("only uint16"), std::string::npos);
  EXPECT_NE(refusal(batch, PadField{0, 4}).find("only a ragged field"), std::string::npos);
  EXPECT_NE(refusal(batch, PadField{1, 0}).find("length"), std::string::npos);
  EXPECT_NE(refusal(batch, WidenField{2}).find("there are 2 fields"), std::string::npos);
  EXPECT_NE(refusal(batch, WidenField{1, DType::kFloat32}).find("not float32"), std::string::npos);
  EXPECT_NE(refusal(Images(), NormalizeField{0, DType::kFloat32, {0, 1}}).find("channels"),
            std::string::npos);
  EXPECT_NE(refusal(Images(), NormalizeField{0, DType::kInt64}).find("not int64"),
            std::string::npos);
}

TEST(CopyPlanTest, AFieldHasOneTransform) {
  const std::vector<FieldTransform> transforms = {WidenField{1}, PadField{1, 4}};
  CopyPlan plan;
  EXPECT_EQ(plan.Make(NumberedBatch{0, 3, true}.Make(nullptr), {.transforms = transforms}).code(),
            StatusCode::kInvalidArgument);
}

/// A batch of rows of different lengths in an arena, some of which stand elsewhere in it: what the
/// batch has in their places is wrong.
class LeftRowsTest : public ::testing::Test {
 protected:
  /// Row r has `lengths[r]` bytes. They stand `apart` bytes from each other, every `written`-th one
  /// in the batch itself.
  void Make(const std::vector<std::size_t>& lengths, std::size_t apart,
            std::size_t written = 1000) {
    std::vector<std::int64_t> offsets = {0};
    for (const std::size_t length : lengths) {
      offsets.push_back(offsets.back() + static_cast<std::int64_t>(length));
    }
    const auto bytes = static_cast<std::size_t>(offsets.back());
    std::byte* const values = run_.data + 4096;
    std::byte* from = run_.data + (std::size_t{2} << 20);
    expected_.resize(bytes);
    for (std::size_t i = 0; i < bytes; ++i) expected_[i] = static_cast<std::byte>(i * 37 + i / 251);
    std::memset(values, 0x55, bytes);
    for (std::size_t row = 0; row < lengths.size(); ++row) {
      const auto at = static_cast<std::size_t>(offsets[row]);
      const bool left = row % written != written - 1;
      std::memcpy(left ? from : values + at, expected_.data() + at, lengths[row]);
      if (left && lengths[row] > 0)
        pending_.push_back({values + at, from, lengths[row], run_.data});
      from += lengths[row] + apart;
    }
    std::memcpy(run_.data, offsets.data(), offsets.size() * sizeof(std::int64_t));
    Tensor ragged;
    ragged.dtype = DType::kUInt8;
    ragged.shape = {static_cast<std::int64_t>(bytes)};
    ragged.data = values;
    ragged.bytes = bytes;
    ragged.owner = arena_;
    ragged.lod.push_back({reinterpret_cast<const std::int64_t*>(run_.data), offsets.size()});
    batch_.push_back(std::move(ragged));
  }
  /// Carries the plan out, compares what comes of it, and gives the plan.
  CopyPlan Check(LeftRows how, const TransferCosts& costs = {}) {
    CopyPlan plan;
    const TransferPlanner planner(costs);
    EXPECT_TRUE(
        plan.Make(batch_, {.pending = pending_, .left_rows = how, .planner = planner}).ok());
    Slot slot = CarryOut(plan);
    Instance tensors;
    plan.fields().MakeTensors(slot.data(), {}, &tensors);
    EXPECT_EQ(tensors[0].bytes, expected_.size());
    EXPECT_EQ(std::memcmp(tensors[0].data, expected_.data(), expected_.size()), 0);
    EXPECT_EQ(std::memcmp(plan.fields().OffsetsIn(slot.data(), 0), batch_[0].lod[0].data(),
                          batch_[0].lod[0].size_bytes()),
              0);
    return plan;
  }

  const std::shared_ptr<Arena> arena_ = SmallArena();
  const SlabRun run_ = arena_->Allocate(std::size_t{3} << 20);
  Instance batch_;
  std::vector<PendingCopy> pending_;
  std::vector<std::byte> expected_;
};

TEST_F(LeftRowsTest, LongRowsAreCopiedOneByOne) {
  Make({60'000, 0, 47'001, 50'003}, 12);
  const CopyPlan plan = Check(LeftRows::kByCost);
  EXPECT_EQ(plan.rows().each_bytes(), expected_.size());
  EXPECT_EQ(plan.rows().together_bytes(), 0u);
  std::vector<DeviceKernel> kernels;
  plan.AddKernels(nullptr, &kernels);
  EXPECT_TRUE(kernels.empty());
}

TEST_F(LeftRowsTest, ShortNeighboursAreCopiedTogether) {
  Make({2000, 3001, 1024, 5003, 0, 2000}, 16);
  const CopyPlan plan = Check(LeftRows::kByCost);
  EXPECT_EQ(plan.rows().together_bytes(), expected_.size());
  EXPECT_EQ(plan.layout().pieces().size(), 3u) << "the offsets, the rows, the table";
}

TEST_F(LeftRowsTest, NeighboursAreFoundInWhateverOrderTheyWereRead) {
  constexpr std::size_t kRows = 60;
  constexpr std::size_t kHalf = kRows / 2;
  const std::vector<std::size_t> rows(kRows, 2000);
  // The row at place i of the batch stands at that place in memory.
  const auto check = [&](const std::function<std::size_t(std::size_t)>& place, bool two_slabs) {
    pending_.clear();
    batch_.clear();
    Make(rows, 16);
    const std::vector<PendingCopy> standing = pending_;
    for (std::size_t i = 0; i < kRows; ++i) {
      const std::byte* const from = standing[place(i)].from;
      const std::byte* const slab = standing[two_slabs && place(i) >= kHalf ? kHalf : 0].from;
      std::memcpy(const_cast<std::byte*>(from), expected_.data() + i * 2000, 2000);
      pending_[i].from = from;
      pending_[i].slab = slab;
    }
    const CopyPlan plan = Check(LeftRows::kByCost);
    EXPECT_EQ(plan.rows().together_bytes(), expected_.size());
    return plan.layout().pieces().size() - 2;  // the offsets, the table
  };
  EXPECT_EQ(check([](std::size_t i) { return (i + kHalf) % kRows; }, true), 2U);
  EXPECT_EQ(check([](std::size_t i) { return i % kHalf * 2 + i / kHalf; }, false), 1U);
  EXPECT_EQ(check([](std::size_t i) { return i * 7 % kRows; }, true), 2U);
}

TEST_F(LeftRowsTest, NeighboursOfMiddlingLengthAreCopiedAsItCosts) {
  Make({10'000, 12'000, 9'000, 11'000}, 16);
  EXPECT_EQ(Check(LeftRows::kByCost).rows().together_bytes(), expected_.size());
  // Where a link takes ten times as long, joining saves little of a row's time on it.
  EXPECT_EQ(Check(LeftRows::kByCost, {.link_ns_per_kib = 186}).rows().each_bytes(),
            expected_.size());
  EXPECT_EQ(Check(LeftRows::kByCost, {.row_ns = 425}).rows().each_bytes(), expected_.size());
}

TEST_F(LeftRowsTest, TooFewNeighboursAreNotWorthACopy) {
  Make({2000, 2000}, 16);
  EXPECT_GE(Check(LeftRows::kByCost).layout().staging_bytes(), expected_.size());
  EXPECT_EQ(Check(LeftRows::kTogether).rows().together_bytes(), expected_.size());
}

TEST_F(LeftRowsTest, AGapMayCostWhatACopyDoes) {
  const std::vector<std::size_t> dense(60, 2000);
  Make(dense, 16);
  const std::size_t bytes = expected_.size();
  // The last row stands far behind the others.
  pending_.back().from += 20'000;
  std::memcpy(const_cast<std::byte*>(pending_.back().from), expected_.data() + bytes - 2000, 2000);
  EXPECT_EQ(Check(LeftRows::kByCost).rows().together_bytes(), bytes);
  EXPECT_EQ(Check(LeftRows::kByCost, {.link_ns_per_kib = 25}).rows().together_bytes(),
            bytes - 2000);
}

TEST_F(LeftRowsTest, ShortRowsFarFromEachOtherAreStaged) {
  Make({2000, 3001, 1024}, 100'000);
  const CopyPlan plan = Check(LeftRows::kByCost);
  EXPECT_EQ(plan.rows().each_bytes() + plan.rows().together_bytes(), 0u);
  EXPECT_GE(plan.layout().staging_bytes(), expected_.size());
}

TEST_F(LeftRowsTest, RowsInTheBatchItselfComeWithThoseThatAreNot) {
  Make({20'000, 2000, 2000, 30'000, 2000, 1500, 1600}, 16, 3);
  for (const LeftRows how : {LeftRows::kByCost, LeftRows::kEach, LeftRows::kTogether}) Check(how);
}

TEST_F(LeftRowsTest, TogetherGoesWhatIsWantedByTwoThirds) {
  Make({30'000, 30'000, 30'000, 30'000}, 14'000);
  const CopyPlan near = Check(LeftRows::kTogether);
  EXPECT_EQ(near.rows().together_bytes(), expected_.size());
  batch_.clear();
  pending_.clear();
  Make({30'000, 30'000, 30'000, 30'000}, 31'000);
  const CopyPlan far = Check(LeftRows::kTogether);
  EXPECT_EQ(far.rows().together_bytes(), 0u);
  EXPECT_EQ(far.rows().each_bytes(), expected_.size());
}

}  // namespace
}  // namespace ringfeed
