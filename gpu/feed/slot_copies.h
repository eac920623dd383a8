#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "gpu/feed/copy_pace.h"
#include "gpu/feed/device_slot.h"
#include "gpu/feed/host_pins.h"
#include "gpu/feed/lane_timeline.h"
#include "gpu/feed/slot_memory.h"
#include "gpu/feed/stage_calls.h"
#include "gpu/feed/transfer_planner.h"
#include "gpu/feed/transfer_tally.h"
#include "ringfeed/device_feed.h"
#include "ringfeed/devices/device_backend.h"
#include "ringfeed/devices/device_kernels.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// What a slot is filled with before each copy: kPoison makes stale bytes seen.
enum class BeforeCopy : std::uint8_t { kNothing, kPoison };

/// Copies batches into a device's slots, by groups, and sees the copies done in their order. It has
/// the device's streams. Waits for nothing, except if it says so. For one thread: the feeding one.
class SlotCopies {
 public:
  /// Smaller batches are copied together: the link is idle for some 3 µs between two calls, an
  /// eighth of the time of 1 MiB on an H200.
  static constexpr std::size_t kGroupBytes = std::size_t{4} << 20;
  /// So many batches are copied together without a wait for more.
  static constexpr std::size_t kGroupBatches = 2;

  /// `timeline` outlives it.
  SlotCopies(const FeedOptions& options, int device, std::span<DeviceSlot> slots,
             std::shared_ptr<HostPins> pins, LaneTimeline* timeline,
             BeforeCopy before_copy = BeforeCopy::kNothing);
  /// Makes streams and events, and the slots' memory if its size is known. Waits for the device.
  Status Open();

  /// Whether the link has enough work until more than `ready` batches can be copied by one call.
  bool MayWaitForMore(std::size_t ready) const;
  /// Begins a group: slots that are copied to by one call.
  void BeginGroup() {
    group_.clear();
    pieces_.clear();
  }
  /// Gives the slot its batch, and plans the copy.
  Status Take(DeviceSlot* slot, FeedItem&& item);
  /// Says in *may whether Prepare may be called: a slot that has to grow, or keeps a batch on the
  /// host, was last used by work that was seen done.
  Status MayPrepare(const DeviceSlot& slot, bool* may);
  /// All else that a batch needs before its copy. The slot is then in the group.
  Status Prepare(DeviceSlot* slot);
  /// Whether the group is as large as one call should copy.
  bool GroupIsFull() const;
  struct Enqueued {
    std::span<DeviceSlot* const> filled;  ///< valid until BeginGroup
    Status status;
  };
  /// The copies of the group by one call, and what follows them. If that fails, slots that were not
  /// filled keep their batches until the device is drained: enqueued work may still read them.
  Enqueued Enqueue();
  /// Copies again the batch that the CPU made in place of a damaged one, as the oldest copy.
  Status CopyAgain(DeviceSlot* slot);

  /// Whether a copy was not seen done yet.
  bool any() const { return !under_way_.empty(); }
  /// When to look again; kNever if no copy is under way.
  std::int64_t NextLook(std::int64_t now_ns) const { return pace_.NextLook(now_ns); }
  struct Look {
    DeviceSlot* slot = nullptr;  ///< the oldest copy's, which is done; null: it is not
    Status status;               ///< of the device, which does not read any more if it is lost
  };
  /// With any(). The slot is then not under way any more, and keeps its batch until LetGo.
  Look LookAtOldest();
  /// A look saw so many copies done.
  void NoteSeen(std::size_t copies) { pace_.NoteDone(backend_->NowNanos(), copies); }
  /// The slot's copy was seen done: its batch goes back, or is kept for its fields on the host.
  void LetGo(DeviceSlot* slot);

  // Call these while no batch is given or leased.

  /// Sees copies done, in their order, up to that time, and lets go of their batches. As
  /// AwaitEvent.
  Status AwaitAll(std::int64_t until_ns);
  /// Records an event for fills that failed halfway, so that their slots can be filled again.
  void RecordHalfFilled();
  /// Waits until nothing is copied or transformed any more, then lets go of all host memory. As
  /// AwaitEvent.
  Status Drain(std::int64_t until_ns);
  void LetGoOfHost();
  /// Nothing uses the slot any more. Fails if its memory could not be given back to the program.
  Status Free(DeviceSlot* slot);
  /// The same for all slots: frees the rest.
  void Close();

  /// `stats->delivered_bytes` is set. Any thread.
  void AddTo(DeviceFeedStats* stats) const;

 private:
  /// As AwaitEvent, of all that was enqueued on the stream.
  Status AwaitStream(DeviceStream stream, DeviceEvent event, const char* what,
                     std::int64_t until_ns);
  /// Whether the device has kernels of ours to run for every batch.
  bool makes_something() const { return !options_.transforms.empty() || with_mask(); }
  /// Whether the valid rows of each batch have a mask.
  bool with_mask() const { return options_.last_step == LastStep::kPad; }
  bool may_have_kernels() const {
    return makes_something() || stage_.any() || left_rows_ != LeftRows::kEach || sums_on_device_;
  }
  Status MakeStreams();
  Status MakeEvents(DeviceSlot* slot);
  /// Between fields and between rows; kNone: and no room for sums either.
  enum class Gaps : std::uint8_t { kAllowed, kNone };
  Status Plan(DeviceSlot* slot, Gaps gaps);
  /// Has the memory ready for what is planned.
  Status Place(DeviceSlot* slot);
  /// Brings what is not in pinned memory to staging memory.
  Status Stage(DeviceSlot* slot);
  Status WaitForConsumers(DeviceSlot* slot);
  void AddToGroup(DeviceSlot* slot);
  void AddCopy(std::byte* to, const std::byte* from, std::size_t bytes);
  Status Copy();
  Status Transform(DeviceSlot* slot);
  /// Whether the copy counts as done after the work that follows it: the host reads what that
  /// wrote, or it reads memory that goes back with the batch.
  bool IsDoneWithReady(const DeviceSlot& slot) const;
  Status FillMask(const DeviceSlot& slot);
  /// Copies the sums to the host after the kernels.
  Status FetchSums(const DeviceSlot& slot);
  /// Everything that a batch needs after its copy.
  Status Finish(DeviceSlot* slot);

  const std::shared_ptr<DeviceBackend> backend_;
  const int device_;
  const FeedOptions options_;
  const TransferPlanner planner_;
  const BeforeCopy before_copy_;
  const std::span<DeviceSlot> slots_;
  std::shared_ptr<HostPins> pins_;
  LaneTimeline* const timeline_;
  SlotMemory memory_;
  TransferTally tally_;
  const StageCalls stage_;
  LeftRows left_rows_;   ///< how rows can come; fixed by Open
  bool sums_on_device_;  ///< the same

  DeviceStream copy_stream_;
  DeviceStream transform_stream_;
  std::vector<DeviceSlot*> group_;
  std::vector<CopyPiece> pieces_;  ///< of the group
  std::vector<DeviceKernel> kernels_;
  std::size_t last_copy_bytes_ = 0;
  std::deque<DeviceSlot*> under_way_;  ///< in the order of the copy stream
  CopyPace pace_;
};

}  // namespace ringfeed
