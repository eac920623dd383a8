#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>

#include "base/memory/arena.h"
#include "gpu/feed/copy_plan.h"
#include "gpu/feed/distributor.h"
#include "ringfeed/devices/device_backend.h"
#include "ringfeed/instance.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// A place for one batch at a time on a device.
///
///   free → filling (copy enqueued) → ready → leased → released → free
///
/// The device orders its memory: a copy waits there for the events that its last consumers' streams
/// recorded, and no host thread waits. The host orders the memory of a batch: it goes back after
/// the copy's event was seen done, because its next writer (a read) cannot wait for a device.
struct DeviceSlot {
  /// Streams that one lease may be used on.
  static constexpr std::size_t kMostStreams = 16;
  /// State of `released`, which comes after a consumer's work: kMissed could not be recorded.
  enum class ReleaseMark : std::uint8_t { kToRecord, kRecorded, kMissed };

  // Its memory and the copy into it (SlotMemory, SlotCopies).
  std::byte* memory = nullptr;
  std::size_t capacity = 0;
  bool sized = false;       ///< by a batch that had rows
  DeviceEvent copied;       ///< after the copy
  DeviceEvent copy_begins;  ///< before it, if there is a timeline
  DeviceEvent transformed;  ///< after the kernels; none if there can be none
  DeviceEvent ready;        ///< `copied` or `transformed`: `copied` without kernels
  bool copying = false;     ///< not yet seen done; the feeding thread's
  bool used = false;        ///< it was filled before
  FeedItem item;
  Instance kept;  ///< the batch whose fields on the host its last lease has
  SlabRun staging;
  CopyPlan plan;
  Instance tensors;
  std::int64_t copy_begin_ns = 0;
  std::atomic<std::uint64_t> generation{0};  ///< of its contents

  // Until it is handed on (BatchSettling).
  bool waits = false;           ///< that comes after the host saw its copy done
  bool seen = false;            ///< if it waits: the copy was seen done
  bool sums_taken = false;      ///< the device takes its item's sums
  bool stage_may_fail = false;  ///< or did: then, after `ready` was seen, it says how
  Status stage_failure;

  // The lease holder's, given back with the slot (SlotLeases).
  std::array<DeviceEvent, kMostStreams> released;  ///< made when first needed
  std::array<DeviceStream, kMostStreams> streams;  ///< or that of an earlier lease
  /// The thread whose per-thread stream that is; none: any other stream.
  std::array<std::thread::id, kMostStreams> stream_threads;
  std::array<ReleaseMark, kMostStreams> releases{};  ///< of each since it was used
  std::size_t streams_used = 0;
  std::int64_t leased_ns = 0;
  bool lost = false;  ///< the first try to record its release failed: never filled again
  Status why_lost;    ///< the device's error for that
  /// From the take until it is taken back: it must not be filled meanwhile. The holder sets it, the
  /// feeding thread clears it; the two channels between them, or AwaitTakers, order it.
  bool taken = false;
  std::atomic<std::thread::id> holder{};  ///< the thread that took it; none: not leased
};

}  // namespace ringfeed
