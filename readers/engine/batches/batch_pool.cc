#include "readers/engine/batches/batch_pool.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/log.h"
#include "base/memory/shadow_memory.h"
#include "readers/order/row_layout.h"

namespace ringfeed {

namespace {

/// Read-ahead of batches: slots by default, more if batches are small.
constexpr std::size_t kMinSlots = 4;
constexpr std::size_t kSlotsBytes = 8 * 1024 * 1024;
constexpr std::size_t kTaskRing = 8192;

/// What `rows` rows may have if `first_rows` have `units` of so many bytes. The first rows may be
/// the long ones, and memory is faulted in as it is taken: beyond kMostGuessed it is at most eight
/// times what is there.
std::uint64_t GuessedUnits(std::uint64_t units, std::size_t unit_bytes, std::uint64_t rows,
                           std::uint64_t first_rows) {
  constexpr std::uint64_t kMostGuessed = 32 * 1024 * 1024;
  constexpr std::uint64_t kMostTimes = 8;
  const std::uint64_t most_guessed = kMostGuessed / std::max<std::size_t>(unit_bytes, 1);
  const std::uint64_t most_times = units * std::min(kMostTimes, rows / first_rows + 1);
  std::uint64_t scaled = 0;
  if (__builtin_mul_overflow(units, rows, &scaled)) return most_times;
  return std::min(scaled / first_rows, std::max(most_guessed, most_times));
}

}  // namespace

std::size_t BatchPool::DefaultSlots(std::size_t batch_bytes) {
  return std::clamp(kSlotsBytes / batch_bytes, kMinSlots, kMaxSlots);
}

BatchPool::BatchPool(const Options& options, const Parser* parser, std::shared_ptr<Arena> arena,
                     RunMemory* memory)
    : options_(options),
      parser_(parser),
      fields_(parser->fields().size()),
      arena_(std::move(arena)),
      memory_(memory),
      learned_units_(fields_),
      free_slots_(2 * kMaxSlots),
      free_tasks_(kTaskRing) {}

BatchPool::~BatchPool() {
  for (const auto& slot : slots_) {
    for (const auto& extent : slot->extents) arena_->Free(extent->run);
  }
}

BatchBuffer* BatchPool::TakeSlot(const BatchNeed& need) {
  if (slot_limit() == 0) {
    ChooseSlotLimit(LayoutFor(CapacityFor(need)).bytes());
  }
  while (BatchBuffer* const slot = FreeSlot()) {
    Prepare(slot, need);
    if (!slot->status.ok() && DropSlot(slot)) continue;
    incomplete_.fetch_add(1, std::memory_order_relaxed);
    return slot;
  }
  return nullptr;
}

BatchBuffer* BatchPool::FreeSlot() {
  BatchBuffer* slot = nullptr;
  if (free_slots_.TryPop(slot) == QueueResult::kOk) return slot;
  if (slots_.size() >= slot_limit()) return nullptr;
  slots_.push_back(std::make_unique<BatchBuffer>());
  return slots_.back().get();
}

std::vector<std::uint64_t> BatchPool::CapacityFor(const BatchNeed& need) const {
  std::vector<std::uint64_t> capacity(fields_);
  for (std::size_t f = 0; f < fields_; ++f) {
    if (!parser_->fields()[f].ragged()) continue;
    std::uint64_t units = std::max(need.units[f], learned_units_[f]);
    if (!need.is_closed && need.rows > 0) {
      // The first batch of all is guessed from its first rows. A guess takes at most a share.
      const std::size_t unit_bytes = parser_->fields()[f].unit_bytes();
      const std::uint64_t share = options_.memory_bytes / kMinSlots / fields_ / unit_bytes;
      units = std::max(units, std::min(share, GuessedUnits(need.units[f], unit_bytes, options_.rows,
                                                           need.rows)));
    }
    capacity[f] = units + units / 4 + 64;
  }
  return capacity;
}

void BatchPool::ChooseSlotLimit(std::size_t batch_bytes) {
  batch_bytes = std::max<std::size_t>(batch_bytes, 1);
  std::size_t slots = options_.slots;
  if (slots == 0) {
    slots = std::min(DefaultSlots(batch_bytes), options_.memory_bytes / batch_bytes);
  }
  slots = std::min(std::max({slots, options_.wanted_slots, options_.least_slots}), kMaxSlots);
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(slots, batch_bytes, &bytes)) bytes = BatchBuffer::Layout::kMostBytes;
  const std::size_t granted = memory_->GrantBatches(bytes) / batch_bytes;
  if (granted <= slots / 2) {
    Tell(LogLevel::kWarn, "few batches",
         "the pinned memory has room for " + std::to_string(granted) +
             " batches at a time, not for " + std::to_string(slots) +
             ", so that reading waits: half of it is for other pipelines; "
             "raise RINGFEED_ARENA_BYTES, or lower the batch size");
  }
  // Slots that the user asked for are tried even beyond the quota.
  if (options_.slots == 0) slots = std::max(std::min(slots, granted), options_.least_slots);
  slot_limit_.store(std::min(slots, kMaxSlots), std::memory_order_relaxed);
}

void BatchPool::Prepare(BatchBuffer* slot, const BatchNeed& need) {
  for (const auto& extent : slot->extents) AllowUse(extent->run.data, extent->run.bytes);
  slot->sequence = need.sequence;
  slot->pass = need.pass;
  slot->rows = 0;
  slot->dropped = false;
  slot->status = Status();
  slot->failed_payload_pass.reset();
  slot->failures.clear();
  slot->refused.clear();
  slot->emptied_rows.clear();
  slot->all_refused = true;
  slot->row_ends.assign(need.row_ends.begin(), need.row_ends.end());
  slot->row_numbers.clear();
  slot->row_bytes.clear();
  slot->payload_bytes.store(0, std::memory_order_relaxed);
  slot->pending.store(1, std::memory_order_relaxed);
  PrepareExtent(slot, need);
  if (!slot->status.ok()) return;
  if (options_.note_rows) {
    slot->row_numbers.assign(need.row_ends.empty() ? options_.rows : need.row_ends.back(), kNoRow);
  }
  if (options_.note_bytes) slot->row_bytes.assign(options_.rows, 0);
}

void BatchPool::PrepareExtent(BatchBuffer* slot, const BatchNeed& need) {
  // A dropped batch may have left parts that were never joined.
  const bool fits = slot->extents.size() == 1 && [&] {
    const auto& columns = slot->extents.front()->layout.columns();
    for (std::size_t f = 0; f < fields_; ++f) {
      if (columns[f].ragged && columns[f].capacity < need.units[f]) return false;
    }
    return true;
  }();
  if (fits) {
    BatchBuffer::Extent& extent = *slot->extents.front();
    extent.row_begin = extent.row_end = 0;
    std::fill(extent.unit_begin.begin(), extent.unit_begin.end(), 0);
    return;
  }
  for (const auto& extent : slot->extents) arena_->Free(extent->run);
  slot->extents.clear();
  auto extent = MakeExtent(CapacityFor(need), &slot->status);
  if (extent != nullptr) slot->extents.push_back(std::move(extent));
}

std::unique_ptr<BatchBuffer::Extent> BatchPool::MakeExtent(std::span<const std::uint64_t> capacity,
                                                           Status* status) {
  auto extent = std::make_unique<BatchBuffer::Extent>();
  extent->layout = LayoutFor(capacity);
  extent->unit_begin.resize(fields_);
  extent->unit_end.resize(fields_);
  const bool possible = extent->layout.is_possible();
  const std::size_t bytes = std::max<std::size_t>(extent->layout.bytes(), 1);
  if (possible) extent->run = arena_->Allocate(bytes);
  while (possible && !extent->run && DropSpareSlot()) extent->run = arena_->Allocate(bytes);
  if (!extent->run) {
    const std::string need =
        (possible ? " needs " : " of " + std::to_string(options_.rows) + " rows needs at least ") +
        std::to_string(extent->layout.bytes());
    *status = Status(StatusCode::kResourceExhausted,
                     "a batch" + need + " contiguous bytes, the pinned arena of " +
                         std::to_string(arena_->bytes()) +
                         " has none left; raise its size (RINGFEED_ARENA_BYTES), or lower the "
                         "batch size, the slots or the window");
    return nullptr;
  }
  extent->layout.SetStarts(extent->run.data);
  return extent;
}

bool BatchPool::DropSpareSlot() {
  BatchBuffer* slot = nullptr;
  if (slots_.size() <= options_.least_slots) return false;
  return free_slots_.TryPop(slot) == QueueResult::kOk && DropSlot(slot);
}

bool BatchPool::DropSlot(BatchBuffer* slot) {
  if (slots_.size() <= options_.least_slots) return false;
  for (const auto& extent : slot->extents) arena_->Free(extent->run);
  std::erase_if(slots_, [slot](const auto& one) { return one.get() == slot; });
  slot_limit_.store(slots_.size(), std::memory_order_relaxed);
  return true;
}

BatchBuffer::Extent* BatchPool::PieceFor(BatchBuffer* slot, const WriteTask& task) {
  if (slot->extents.empty() || !slot->status.ok()) return nullptr;
  BatchBuffer::Extent& last = *slot->extents.back();
  std::vector<std::uint64_t> capacity(fields_);
  bool fits = true;
  for (std::size_t f = 0; f < fields_; ++f) {
    const BatchBuffer::Layout::Column& column = last.layout.columns()[f];
    if (!column.ragged) continue;
    capacity[f] = column.capacity;
    if (task.unit_end[f] <= column.capacity) continue;
    fits = false;
    const std::uint64_t expected = GuessedUnits(task.unit_end[f], parser_->fields()[f].unit_bytes(),
                                                options_.rows, task.dst_row + task.rows);
    capacity[f] = std::max({column.capacity * 2, expected + expected / 8, task.unit_end[f]});
  }
  if (fits) return &last;
  auto extent = MakeExtent(capacity, &slot->status);
  if (extent == nullptr) {
    // There is no room for what is expected. Try what is certain.
    slot->status = Status();
    extent = MakeExtent(task.unit_end, &slot->status);
  }
  if (extent == nullptr) return nullptr;
  grown_.fetch_add(1, std::memory_order_relaxed);
  last.row_end = task.dst_row;
  last.unit_end = task.unit_begin;
  extent->row_begin = task.dst_row;
  extent->unit_begin = task.unit_begin;
  slot->extents.push_back(std::move(extent));
  return slot->extents.back().get();
}

void BatchPool::Learn(std::span<const std::uint64_t> units) {
  for (std::size_t f = 0; f < fields_; ++f) {
    learned_units_[f] = std::max(learned_units_[f], units[f]);
  }
}

WriteTask* BatchPool::NewTask() {
  WriteTask* task = nullptr;
  if (free_tasks_.TryPop(task) == QueueResult::kOk) return task;
  tasks_.push_back(std::make_unique<WriteTask>());
  return tasks_.back().get();
}

void BatchPool::RecycleTask(WriteTask* task) {
  task->slot = nullptr;
  task->extent = nullptr;
  task->block = nullptr;
  task->refs.clear();
  (void)free_tasks_.TryPush(std::move(task));  // all tasks ever made fit, or this one rests unused
}

void BatchPool::LetGoOfBlocks(BatchBuffer* slot) {
  slot->pending_copies.clear();
  slot->pending_sums.clear();
  slot->sum_rows.clear();
  for (Block* block : slot->kept) memory_->LetGo(block);
  slot->kept.clear();
}

bool BatchPool::Claim(BatchBuffer* slot) {
  BatchBuffer::Hands hands = BatchBuffer::Hands::kRun;
  // Order: one of this and FreeUnlessHeld comes first, and the other one leaves the batch alone.
  return slot->hands.compare_exchange_strong(hands, BatchBuffer::Hands::kConsumer,
                                             std::memory_order_acq_rel);
}

void BatchPool::Release(BatchBuffer* slot) {
  LetGoOfBlocks(slot);
  for (const auto& extent : slot->extents) ForbidUse(extent->run.data, extent->run.bytes);
  // Release: pairs with the acquire in FreeUnlessHeld, for all uses of the memory.
  slot->hands.store(BatchBuffer::Hands::kRun, std::memory_order_release);
  BatchBuffer* const released = slot;
  (void)free_slots_.TryPush(std::move(slot));  // has room for every slot that can exist
  // Order: acq_rel, here and in LetGo. If Release is first, LetGo finds the slot; if it is second,
  // Release frees the slot itself.
  if (let_go_.fetch_add(0, std::memory_order_acq_rel) != 0) FreeUnlessHeld(released);
}

void BatchPool::FreeUnlessHeld(BatchBuffer* slot) {
  BatchBuffer::Hands hands = BatchBuffer::Hands::kRun;
  // Order: see Claim and Release.
  if (!slot->hands.compare_exchange_strong(hands, BatchBuffer::Hands::kNobody,
                                           std::memory_order_acq_rel)) {
    return;
  }
  LetGoOfBlocks(slot);
  for (const auto& extent : slot->extents) arena_->Free(extent->run);
  slot->extents.clear();
}

void BatchPool::LetGo() {
  let_go_.fetch_add(1, std::memory_order_acq_rel);
  for (const auto& slot : slots_) FreeUnlessHeld(slot.get());
}

}  // namespace ringfeed
