#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "gpu/feed/slot_layout.h"
#include "ringfeed/device_feed.h"
#include "ringfeed/devices/device_kernels.h"
#include "ringfeed/instance.h"
#include "ringfeed/status.h"
#include "ringfeed/tensor.h"

namespace ringfeed {

/// The place of a field in a slot.
struct FieldPlace {
  DType dtype = DType::kUInt8;
  Shape shape;
  std::size_t offset = 0;
  std::size_t bytes = 0;
  std::vector<std::vector<std::int64_t>> lod;  ///< the host's copy
  std::optional<const std::byte*> on_host;     ///< it stays there, and has no place in the slot
  std::size_t offsets_at = kNowhere;           ///< level 0 in the slot

  static constexpr std::size_t kNowhere = ~std::size_t{0};
};

/// The rows of a batch, and those that a fixed slot is to have room for; 0: no more than these.
struct RowRoom {
  std::uint64_t rows = 0;
  std::uint64_t most_rows = 0;
};

/// The fields of a batch in a slot: as they are copied, as transforms make them, and those that a
/// stage adds.
class SlotFields {
 public:
  /// Those of the batch, without places. `host_fields` stay where they are. kInvalidArgument if
  /// there is no such field.
  Status Take(const Instance& batch, RowRoom room = {},
              std::span<const std::size_t> host_fields = {});
  /// The field as it is copied.
  FieldPlace& operator[](std::size_t field);
  bool ragged() const { return ragged_; }
  /// The bytes of a field of fixed size per row if there were the most rows; 0 for others.
  std::size_t RoomFor(const FieldPlace& field) const;

  /// Whether the transform leaves a ragged field ragged.
  bool StaysRagged(const FieldTransform& transform) const;
  /// Room for the transform's output, before or after its input gets its own. kInvalidArgument if
  /// it does not fit the field; the message names both.
  Status Transform(const FieldTransform& transform, SlotLayout* layout);
  /// Room for what a stage makes. kInvalidArgument if that is more than there can be.
  Status AddOutputs(std::span<const StageOutput> outputs, SlotLayout* layout);
  /// The kernels of the transforms.
  void AddKernels(std::byte* slot, std::vector<DeviceKernel>* kernels) const;
  /// Views without an owner, `lod` in this object: the fields, then the stage's outputs.
  void MakeTensors(const std::byte* slot, Place place, Instance* tensors) const;
  /// Level 0, in `slot`, of a field that is ragged when copied; null for others.
  const std::int64_t* OffsetsIn(const std::byte* slot, std::size_t field) const;

  /// The bytes of `most_rows` rows that are like these, of which there are `rows`, each with a byte
  /// of a mask if `masked`; none if that is more than there can be.
  std::optional<std::size_t> BytesFor(std::uint64_t most_rows, std::uint64_t rows,
                                      bool masked) const;

 private:
  struct Transformed {
    const FieldTransform* transform = nullptr;
    FieldPlace from;
  };

  /// The field's place before any transform.
  const FieldPlace& AsCopied(std::size_t field) const;
  Status Normalize(const NormalizeField& normalize, FieldPlace* place, SlotLayout* layout);
  Status CheckCrop(const NormalizeField& normalize, const FieldPlace& images) const;
  Status Pad(const PadField& pad, FieldPlace* place, SlotLayout* layout);

  Status PlaceOutput(DType dtype, Shape shape, FieldPlace* place, SlotLayout* layout) const;
  Status Widen(const WidenField& widen, FieldPlace* place, SlotLayout* layout) const;

  RowRoom room_;
  std::vector<FieldPlace> fields_;
  std::vector<Transformed> transformed_;
  std::vector<FieldPlace> outputs_;  ///< of the stage
  bool ragged_ = false;
};

}  // namespace ringfeed
