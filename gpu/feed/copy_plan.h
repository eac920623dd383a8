#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/pending_copy.h"
#include "gpu/feed/taken_sums.h"
#include "gpu/feed/transfer_planner.h"
#include "ringfeed/device_feed.h"
#include "ringfeed/devices/device_kernels.h"
#include "ringfeed/tensor.h"

namespace ringfeed {

/// The place of a field in a slot.
struct FieldPlace {
  DType dtype = DType::kUInt8;
  Shape shape;
  std::size_t offset = 0;
  std::size_t bytes = 0;
  std::vector<std::vector<std::int64_t>> lod;  ///< the host's copy
  std::size_t offsets_at = kNowhere;           ///< level 0 in the slot

  static constexpr std::size_t kNowhere = ~std::size_t{0};
};

/// A stretch of host memory and its target.
struct PlannedPiece {
  const std::byte* from = nullptr;  ///< pinned memory of an arena, or anything if `staged`
  std::size_t to = 0;               ///< offset in the slot
  std::size_t bytes = 0;
  bool staged = false;  ///< the CPU copies it into staging memory first, at `staging_at`
  bool field = true;    ///< a whole field or its offsets: unused room follows it
  std::size_t staging_at = 0;
};

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

  std::span<const PlannedPiece> pieces() const { return pieces_; }
  std::size_t staging_bytes() const { return staging_bytes_; }
  std::size_t slot_bytes() const { return slot_bytes_; }
  /// The bytes of a batch of `most_rows` rows that are like the `rows` rows of this one. If nothing
  /// can be told, those of this one.
  std::size_t SlotBytesFor(std::uint64_t most_rows, std::uint64_t rows) const;
  std::size_t copied_bytes() const { return copied_bytes_; }
  /// Bytes of the tensors that no CPU moved since they were read: copied by themselves, or with
  /// neighbours.
  std::size_t each_bytes() const { return each_bytes_; }
  std::size_t together_bytes() const { return together_bytes_; }
  /// The same for rows that are in the device's memory already.
  std::size_t direct_bytes() const { return direct_bytes_; }
  bool ragged() const { return ragged_; }
  /// Whether rows are copied together: the gaps between them differ from batch to batch.
  bool has_runs() const { return !gathered_.empty(); }
  /// Whether there may be gaps between the wanted bytes.
  bool has_gaps() const { return has_gaps_ || has_runs(); }
  std::size_t mask_at() const { return mask_at_; }

  /// The kernels that take rows from the device's memory to `slot`. Launch them together with the
  /// copies; their table is there after the copies.
  void AddDirectKernels(std::byte* slot, std::vector<DeviceKernel>* kernels) const;
  /// The sums that a kernel writes to `sums_at` in the slot, u32 each, in this order. They have to
  /// be copied to `sums_staging_at` in staging memory.
  std::span<const TakenSum> taken_sums() const { return taken_sums_; }
  std::size_t sums_bytes() const { return taken_sums_.size() * sizeof(std::uint32_t); }
  std::size_t sums_at() const { return sums_at_; }
  std::size_t sums_staging_at() const { return sums_staging_at_; }

  /// The kernels that turn the bytes copied to `slot` into the shown tensors.
  void AddKernels(std::byte* slot, std::vector<DeviceKernel>* kernels) const;
  /// The tensors as a lease shows them: views without an owner, `lod` in this plan.
  void MakeTensors(const std::byte* slot, Place place, Instance* tensors) const;
  /// Level 0, in `slot`, of a field that is ragged when copied; null for others.
  const std::int64_t* OffsetsIn(const std::byte* slot, std::size_t field) const;

 private:
  struct Transformed {
    const FieldTransform* transform = nullptr;
    FieldPlace from;
  };

  /// A row of a field that stayed in the memory it was read into.
  struct LeftRow {
    const std::byte* from = nullptr;
    std::size_t to = 0;  ///< offset in the slot
    std::size_t bytes = 0;
    const std::byte* slab = nullptr;  ///< as PendingCopy
    bool far = false;                 ///< in the device's memory
    std::uint32_t sum = PendingCopy::kNoSum;
  };
  /// Rows of one slab in the device's memory: entries of the table.
  struct FarRows {
    const std::byte* from = nullptr;  ///< the start of the first
    std::size_t bytes = 0;            ///< to the furthest end
    std::size_t first = 0;
    std::size_t count = 0;
  };

  void Clear(std::size_t fields);
  void TakeField(const Tensor& tensor, FieldPlace* place);
  bool PlanWhole(const Instance& batch);
  void PlanPieces(const Instance& batch, std::span<const PendingCopy> pending);
  std::size_t AddPiece(const void* from, std::size_t bytes);
  void AddPieceAt(PlannedPiece piece);
  /// Adds a field with rows that stayed in the memory they were read into.
  std::size_t AddParts(const Tensor& tensor, std::span<const PendingCopy> pending);
  void PlanLeftRows(const Input& input);
  /// The run of neighbours that begins with the first of these rows.
  static RowRun RunOf(std::span<const LeftRow> rows, const Input& input);
  /// Copies it from the memory it was read into or, if that is cheaper, by way of staging memory.
  void AddAlone(const LeftRow& row, const Input& input);
  void AddRun(std::span<const LeftRow> rows, std::size_t bytes);
  /// `rows` begins with a row in the device's memory: how many of the rows belong to its slab.
  std::size_t AddFarRows(std::span<const LeftRow> rows);
  void AddTable(std::span<const GatheredPiece> table, std::size_t* at);
  void PlanSums(std::span<const PendingSum> sums);
  Status Transform(const FieldTransform& transform);
  Status PlaceOutput(FieldPlace* place, DType dtype, Shape shape);
  Status Normalize(const NormalizeField& normalize, FieldPlace* place);
  Status CheckCrop(const NormalizeField& normalize, const FieldPlace& images) const;
  /// The field's place before any transform.
  const FieldPlace& AsCopied(std::size_t field) const;
  Status Widen(const WidenField& widen, FieldPlace* place);
  Status Pad(const PadField& pad, FieldPlace* place);

  std::vector<PlannedPiece> pieces_;
  std::vector<FieldPlace> fields_;
  std::vector<Transformed> transformed_;
  std::vector<LeftRow> left_rows_;
  std::vector<GatheredPiece> gathered_;  ///< of rows that are copied together
  std::size_t gathered_at_ = 0;          ///< that table in the slot
  std::vector<GatheredPiece> direct_;    ///< of rows in the device's memory
  std::vector<FarRows> far_rows_;
  std::size_t direct_at_ = 0;   ///< that table in the slot
  std::size_t fields_end_ = 0;  ///< the start of runs of rows in the slot
  std::size_t runs_end_ = 0;
  std::vector<TakenSum> taken_sums_;
  std::vector<SummedPiece> summed_;  ///< of each
  std::size_t summed_at_ = 0;        ///< that table in the slot
  std::size_t sums_at_ = 0;
  std::size_t sums_staging_at_ = 0;
  std::size_t each_bytes_ = 0;
  std::size_t together_bytes_ = 0;
  std::size_t direct_bytes_ = 0;
  std::size_t staging_bytes_ = 0;
  std::size_t slot_bytes_ = 0;
  std::size_t copied_bytes_ = 0;
  std::size_t mask_at_ = FieldPlace::kNowhere;
  bool ragged_ = false;
  bool has_gaps_ = false;  ///< between fields
};

}  // namespace ringfeed
