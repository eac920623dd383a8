#include "gpu/feed/copy_plan.h"

#include <algorithm>
#include <memory>

#include "base/memory/arena.h"

namespace ringfeed {
namespace {

// So many unneeded bytes may be copied to save a second copy.
constexpr std::size_t kGapBytes = std::size_t{64} << 10;

/// The range of addresses of some data.
struct AddressRange {
  const std::byte* begin = nullptr;
  const std::byte* end = nullptr;
  std::size_t used = 0;

  void Add(const void* data, std::size_t bytes) {
    if (bytes == 0) return;
    const auto* const first = static_cast<const std::byte*>(data);
    begin = begin == nullptr ? first : std::min(begin, first);
    end = std::max(end, first + bytes);
    used += bytes;
  }
};

}  // namespace

Status CopyPlan::Make(const Instance& batch, const Input& input) {
  layout_.Clear();
  rows_.Clear();
  Status status = fields_.Take(batch, input.room, input.host_fields);
  if (!status.ok()) return status;
  const bool is_fixed = input.room.most_rows > 0;
  mask_at_ = FieldPlace::kNowhere;
  if (input.mask_rows) {
    mask_at_ = layout_.AddRoom(std::max<std::size_t>(*input.mask_rows, input.room.most_rows));
  }
  status = PlanTransforms(input.transforms, false);
  if (status.ok()) status = fields_.AddOutputs(input.outputs, &layout_);
  const bool wants_all = input.pending.empty() && input.host_fields.empty();
  has_gaps_ = !input.tight && !is_fixed && wants_all && PlanWhole(batch);
  if (!has_gaps_) PlanPieces(batch, input.pending, false);
  if (status.ok()) status = PlanTransforms(input.transforms, true);
  if (!has_gaps_) PlanPieces(batch, input.pending, true);
  if (status.ok()) rows_.Make(input.left_rows, input.planner, input.sums, &layout_);
  return status;
}

Status CopyPlan::PlanTransforms(std::span<const FieldTransform> transforms, bool ragged) {
  Status status;
  for (const FieldTransform& transform : transforms) {
    if (status.ok() && fields_.StaysRagged(transform) == ragged) {
      status = fields_.Transform(transform, &layout_);
    }
  }
  return status;
}

bool CopyPlan::PlanWhole(const Instance& batch) {
  AddressRange range;
  for (const Tensor& tensor : batch) {
    range.Add(tensor.data, tensor.bytes);
    for (const auto& level : tensor.lod) range.Add(level.data(), level.size_bytes());
  }
  if (range.begin == nullptr) return false;
  const auto bytes = static_cast<std::size_t>(range.end - range.begin);
  const std::size_t to = SlotLayout::AlignUp(layout_.slot_bytes());
  if (bytes > range.used + range.used / 8 + kGapBytes) return false;
  const std::shared_ptr<Arena> arena = Arena::Containing(range.begin);
  if (arena == nullptr || range.end > arena->data() + arena->bytes()) return false;
  for (std::size_t f = 0; f < batch.size(); ++f) {
    if (batch[f].owner != batch[0].owner) return false;
    // A tensor of no bytes may point anywhere.
    fields_[f].offset =
        to + (batch[f].bytes == 0 ? 0 : static_cast<std::size_t>(batch[f].data - range.begin));
    // A device's part of a batch may begin at any row, so only single fields can be aligned in the
    // slot.
    if (fields_[f].offset % SlotLayout::kAlignment != 0) return false;
    if (batch[f].lod.empty()) continue;
    fields_[f].offsets_at =
        to + static_cast<std::size_t>(reinterpret_cast<const std::byte*>(batch[f].lod[0].data()) -
                                      range.begin);
    if (fields_[f].offsets_at % alignof(std::int64_t) != 0) return false;
  }
  layout_.Add({.from = range.begin, .to = layout_.AddRoom(bytes), .bytes = bytes});
  return true;
}

void CopyPlan::PlanPieces(const Instance& batch, std::span<const PendingCopy> pending,
                          bool ragged) {
  for (std::size_t f = 0; f < batch.size(); ++f) {
    if (fields_[f].on_host.has_value()) continue;
    if (ragged != batch[f].lod.empty()) PlanField(batch[f], pending, &fields_[f]);
  }
}

void CopyPlan::PlanField(const Tensor& tensor, std::span<const PendingCopy> pending,
                         FieldPlace* field) {
  const auto left = CopiesWithin(pending, tensor.data, tensor.bytes);
  const std::size_t room = fields_.RoomFor(*field);
  field->offset = left.empty() ? layout_.AddWhole(tensor.data, tensor.bytes, room)
                               : rows_.AddField(tensor.data, tensor.bytes, room, left, &layout_);
  if (tensor.lod.empty()) return;
  // The plan's own copy of the offsets: it stays until the slot is filled again.
  const std::vector<std::int64_t>& level = field->lod[0];
  field->offsets_at = layout_.AddWhole(level.data(), level.size() * sizeof(std::int64_t));
}

std::size_t CopyPlan::SlotBytesFor(std::uint64_t most_rows, std::uint64_t rows) const {
  if (most_rows <= rows) return layout_.slot_bytes();
  const bool masked = mask_at_ != FieldPlace::kNowhere;
  return std::max(fields_.BytesFor(most_rows, rows, masked).value_or(0), layout_.slot_bytes());
}

void CopyPlan::AddKernels(std::byte* slot, std::vector<DeviceKernel>* kernels) const {
  rows_.AddKernels(slot, kernels);
  fields_.AddKernels(slot, kernels);
}

}  // namespace ringfeed
