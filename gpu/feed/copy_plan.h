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
/// of the transforms and of the stage stands before all of that.
///
/// In a fixed slot what has a size per row stands first, with room for the most rows: so it stands
/// at the same address in every batch, for graphs that were captured with it. Ragged values and
/// what is only copied to the slot follow. Kept with its slot and made anew for each batch.
class CopyPlan {
 public:
  struct Input {
    std::span<const PendingCopy> pending{};  ///< of the batch, in the order of their places
    std::span<const PendingSum> sums{};      ///< that the device computes a part of
    LeftRows left_rows = LeftRows::kByCost;
    TransferPlanner planner{};
    std::span<const FieldTransform> transforms{};
    std::span<const StageOutput> outputs{};  ///< of the stage
    std::span<const std::size_t> host_fields{};
    std::optional<std::size_t> mask_rows{};  ///< a byte each; 0 in an empty batch
    bool tight = false;  ///< leaves out the gaps between fields: rather more copies
    RowRoom room{};
  };
  /// kInvalidArgument if a transform does not fit the field; the message names both.
  Status Make(const Instance& batch, const Input& input);

  const SlotLayout& layout() const { return layout_; }
  const SlotFields& fields() const { return fields_; }
  const LeftRowPlan& rows() const { return rows_; }
  /// The bytes of a batch of `most_rows` rows that are like the `rows` rows of this one. If nothing
  /// can be told, those of this one.
  std::size_t SlotBytesFor(std::uint64_t most_rows, std::uint64_t rows) const;
  /// Whether there may be gaps between the wanted bytes.
  bool has_gaps() const { return has_gaps_ || rows_.has_runs(); }
  std::size_t mask_at() const { return mask_at_; }
  /// The kernels that turn the bytes copied to `slot` into the shown tensors.
  void AddKernels(std::byte* slot, std::vector<DeviceKernel>* kernels) const;

 private:
  /// All of it by one copy, if the batch is in one piece of pinned memory.
  bool PlanWhole(const Instance& batch);
  /// Of the fields that are ragged, or of the others.
  void PlanPieces(const Instance& batch, std::span<const PendingCopy> pending, bool ragged);
  Status PlanTransforms(std::span<const FieldTransform> transforms, bool ragged);
  void PlanField(const Tensor& tensor, std::span<const PendingCopy> pending, FieldPlace* field);

  SlotLayout layout_;
  SlotFields fields_;
  LeftRowPlan rows_;
  std::size_t mask_at_ = FieldPlace::kNowhere;
  bool has_gaps_ = false;  ///< between fields
};

}  // namespace ringfeed
