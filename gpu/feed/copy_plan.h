#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/pending_copy.h"
#include "gpu/feed/left_row_plan.h"
#include "gpu/feed/slot_fields.h"
#include "gpu/feed/slot_layout.h"
#include "gpu/feed/transfer_planner.h"
#include "ringfeed/device_feed.h"
#include "ringfeed/devices/device_kernels.h"
#include "ringfeed/tensor.h"

namespace ringfeed {

/// How a batch comes into a slot. If its tensors are in one piece of pinned memory, as those of
/// Batch are, and each so begins at a multiple of 256 bytes in the slot: one copy. Else a copy for
/// each tensor; tensors in other memory go by way of staging memory. Rows that stayed in the memory
/// they were read into are copied from there, as a TransferPlanner says: to their places, or
/// together to memory after the tensors, from which a kernel takes them to their places. The output
/// of the transforms follows. Kept with its slot and made anew for each batch.
class CopyPlan {
 public:
  struct Input {
    std::span<const PendingCopy> pending{};  ///< of the batch, in the order of their places
    std::span<const PendingSum> sums{};      ///< that the device computes a part of
    LeftRows left_rows = LeftRows::kByCost;
    TransferPlanner planner{};
    std::span<const FieldTransform> transforms{};
    std::optional<std::size_t> mask_rows{};  ///< a byte each; 0 in an empty batch
    bool tight = false;  ///< leaves out the gaps between fields: rather more copies
  };
  /// kInvalidArgument if a transform does not fit the field; the message names both.
  Status Make(const Instance& batch, const Input& input);

  std::span<const PlannedPiece> pieces() const { return layout_.pieces(); }
  std::size_t staging_bytes() const { return layout_.staging_bytes(); }
  std::size_t slot_bytes() const { return layout_.slot_bytes(); }
  std::size_t copied_bytes() const { return layout_.copied_bytes(); }
  /// The bytes of a batch of `most_rows` rows that are like the `rows` rows of this one. If nothing
  /// can be told, those of this one.
  std::size_t SlotBytesFor(std::uint64_t most_rows, std::uint64_t rows) const;
  bool ragged() const { return fields_.ragged(); }
  /// Whether rows are copied together: the gaps between them differ from batch to batch.
  bool has_runs() const { return rows_.has_runs(); }
  /// Whether there may be gaps between the wanted bytes.
  bool has_gaps() const { return has_gaps_ || has_runs(); }
  std::size_t mask_at() const { return mask_at_; }

  /// Bytes of the tensors that no CPU moved since they were read: copied by themselves, or with
  /// neighbours.
  std::size_t each_bytes() const { return rows_.each_bytes(); }
  std::size_t together_bytes() const { return rows_.together_bytes(); }
  /// The same for rows that are in the device's memory already.
  std::size_t direct_bytes() const { return rows_.direct_bytes(); }
  /// The sums that a kernel writes to `sums_at` in the slot, u32 each, in this order. They have to
  /// be copied to `sums_staging_at` in staging memory.
  std::span<const TakenSum> taken_sums() const { return rows_.taken_sums(); }
  std::size_t sums_bytes() const { return rows_.sums_bytes(); }
  std::size_t sums_at() const { return rows_.sums_at(); }
  std::size_t sums_staging_at() const { return rows_.sums_staging_at(); }

  /// The kernels that take rows from the device's memory to `slot`. Launch them together with the
  /// copies; their table is there after the copies.
  void AddDirectKernels(std::byte* slot, std::vector<DeviceKernel>* kernels) const {
    rows_.AddDirectKernels(slot, kernels);
  }
  /// The kernels that turn the bytes copied to `slot` into the shown tensors.
  void AddKernels(std::byte* slot, std::vector<DeviceKernel>* kernels) const;
  /// The tensors as a lease shows them: views without an owner, `lod` in this plan.
  void MakeTensors(const std::byte* slot, Place place, Instance* tensors) const {
    fields_.MakeTensors(slot, place, tensors);
  }
  /// Level 0, in `slot`, of a field that is ragged when copied; null for others.
  const std::int64_t* OffsetsIn(const std::byte* slot, std::size_t field) const {
    return fields_.OffsetsIn(slot, field);
  }

 private:
  /// All of it by one copy, if the batch is in one piece of pinned memory.
  bool PlanWhole(const Instance& batch);
  void PlanPieces(const Instance& batch, std::span<const PendingCopy> pending);

  SlotLayout layout_;
  SlotFields fields_;
  LeftRowPlan rows_;
  std::size_t mask_at_ = FieldPlace::kNowhere;
  bool has_gaps_ = false;  ///< between fields
};

}  // namespace ringfeed
