#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/pending_copy.h"
#include "gpu/feed/slot_layout.h"
#include "gpu/feed/transfer_planner.h"
#include "gpu/piece_chunks.h"
#include "ringfeed/devices/device_kernels.h"

namespace ringfeed {

/// How rows that stayed in the memory they were read into come to their places in a slot, as a
/// TransferPlanner says: each copied by itself, copied together to memory after the tensors, from
/// which a kernel takes them, or taken by a kernel from the device's memory. And which of their
/// checksums a kernel computes there. The kernels' tables have long rows in chunks, which all of a
/// device shares.
class LeftRowPlan {
 public:
  void Clear();
  /// Room, `room` bytes at least, for a field of the batch some of whose rows stayed, and the
  /// pieces of its other rows.
  std::size_t AddField(const std::byte* data, std::size_t bytes, std::size_t room,
                       std::span<const PendingCopy> pending, SlotLayout* layout);
  /// After all fields.
  void Make(LeftRows how, const TransferPlanner& planner, std::span<const PendingSum> sums,
            SlotLayout* layout);

  /// Bytes of the tensors that no CPU moved since they were read: of rows that are copied by
  /// themselves, together, or that are in the device's memory.
  std::size_t each_bytes() const { return each_bytes_; }
  std::size_t together_bytes() const { return together_bytes_; }
  std::size_t direct_bytes() const { return direct_bytes_; }
  /// Whether rows are copied together: the gaps between them differ from batch to batch.
  bool has_runs() const { return !gathered_.empty(); }
  /// What a kernel sums: text t is PendingSum t. It writes its share of each PendingSum to
  /// `sums_at` in the slot, u32 each. They have to be copied to `sums_staging_at` in staging
  /// memory.
  std::span<const SummedPiece> summed() const { return summed_; }
  std::size_t summed_bytes() const { return summed_bytes_; }  ///< in all
  std::size_t sums_bytes() const { return sums_ * sizeof(std::uint32_t); }
  std::size_t sums_at() const { return sums_at_; }
  std::size_t sums_staging_at() const { return sums_staging_at_; }

  /// The most room that so many sums, of rows of fields of `bytes` in all, take in a slot.
  static std::size_t SumRoom(std::size_t rows, std::size_t sums, std::size_t bytes) {
    return SlotLayout::AlignUp((rows + bytes / kChunkBytes) * sizeof(SummedPiece)) +
           SlotLayout::AlignUp(sums * sizeof(std::uint32_t)) + SlotLayout::kAlignment;
  }

  /// Launch them after the copies. What they read of the device's memory (direct_bytes) is needed
  /// until they are done.
  void AddKernels(std::byte* slot, std::vector<DeviceKernel>* kernels) const;

 private:
  struct LeftRow {
    const std::byte* from = nullptr;
    std::size_t to = 0;  ///< offset in the slot
    std::size_t bytes = 0;
    const std::byte* slab = nullptr;  ///< as PendingCopy
    bool far = false;                 ///< in the device's memory
    std::uint32_t sum = PendingCopy::kNoSum;
  };
  static bool IsBefore(const LeftRow& a, const LeftRow& b);
  void SortRows();
  /// The run of neighbours that begins with the first of these rows.
  static RowRun RunOf(std::span<const LeftRow> rows, LeftRows how, const TransferPlanner& planner);
  static void AddPiece(const GatheredPiece& piece, std::vector<GatheredPiece>* table);
  void AddRun(std::span<const LeftRow> rows, std::size_t bytes, SlotLayout* layout);
  /// `rows` begins with a row in the device's memory: how many of the rows belong to its slab.
  std::size_t AddFarRows(std::span<const LeftRow> rows);
  void PlanSums(std::span<const PendingSum> sums);

  std::vector<LeftRow> rows_;
  std::vector<LeftRow> sorted_;          ///< working memory
  std::vector<GatheredPiece> gathered_;  ///< of rows that are copied together
  std::size_t gathered_at_ = 0;          ///< that table in the slot
  std::vector<GatheredPiece> direct_;    ///< of rows in the device's memory, from the first one on
  std::vector<MemoryAccess> far_parts_;  ///< what they lie in: a part of each slab
  std::size_t direct_at_ = 0;            ///< that table in the slot
  std::size_t fields_end_ = 0;           ///< the start of runs of rows in the slot
  std::size_t runs_end_ = 0;
  std::vector<SummedPiece> summed_;
  std::size_t summed_at_ = 0;  ///< that table in the slot
  std::size_t sums_ = 0;       ///< how many the kernel writes
  std::size_t sums_at_ = 0;
  std::size_t sums_staging_at_ = 0;
  std::size_t each_bytes_ = 0;
  std::size_t together_bytes_ = 0;
  std::size_t direct_bytes_ = 0;
  std::size_t summed_bytes_ = 0;
};

}  // namespace ringfeed
