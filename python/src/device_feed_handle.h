#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "feed_gate.h"
#include "fork_guard.h"
#include "handover.h"
#include "reader_handle.h"
#include "ringfeed/device_feed.h"
#include "ringfeed/export/shared_lease.h"

namespace ringfeed::python {

/// A device feed as Python holds it, over a chain that nobody else reads. It starts with the first
/// batch that is asked for. Waits are made without the lock and end on Ctrl-C.
///
/// Thread safety: all methods from any thread; a loop per device may be in a thread of its own.
class DeviceFeedHandle {
 public:
  /// What is known of a batch, or a device's part of one.
  struct Part {
    int device = 0;
    std::uint64_t rows = 0;
    std::uint64_t valid_rows = 0;
  };

  /// `devices_reason`: which devices these are, where the user left it open.
  /// `stream`: what work on the batches is enqueued on; null: batches come when their copy is done.
  DeviceFeedHandle(ReaderHandle input, FeedOptions options, std::string devices_reason,
                   DeviceStream stream);
  ~DeviceFeedHandle();

  /// The next batch, of all devices in their turn or of one, in `form`. Null at the end. Raises
  /// what the chain or a device failed of. It counts as handed out when this returns it: where that
  /// is interrupted, or the stream refuses it, the next call for all devices, or for this one,
  /// gives it.
  nanobind::object NextAs(std::optional<std::size_t> device_index, const BatchForm& form);
  /// Whether a batch or a failure follows. Waits for it; Ctrl-C ends the wait. Not while others
  /// read.
  bool HasNext();
  /// Whether a mask is one more field of the batches.
  bool masked() const { return options_.last_step == LastStep::kPad; }
  /// Of the batch that was handed out last, of all devices or of one.
  std::optional<Part> LastPart(std::optional<std::size_t> device_index) const;
  /// Of the furthest batch that was handed out: a loop per device may be ahead of another's.
  std::optional<BatchOrigin> Furthest() const;
  const ReaderHandle& input() const { return input_; }
  std::string kind() const { return std::string(options_.backend->name()); }
  const std::string& devices_reason() const { return devices_reason_; }
  /// Starts it where it was not started.
  DeviceFeed& feed();

  void Reset();
  void Restore(const std::string& position);
  void SeekTo(std::uint64_t batch);
  std::string Position();
  std::optional<FeedStats> Stats() const;
  /// Ends all threads; batches that are held stay valid. Nothing in a forked child.
  void Close();

 private:
  /// What is noted of a batch once it counts.
  struct Ticket {
    std::shared_ptr<SharedLease> lease;
    BatchOrigin origin;
    std::size_t place = 0;  ///< of its device in the list
    Part part;
    std::uint64_t start = 0;
  };
  using Kept = KeptBatches<Ticket>;
  /// A batch as the feed gave it.
  struct Taken {
    DeviceLease lease;
    std::uint64_t start = 0;  ///< as Ticket::start
  };

  /// Of the calls for all devices, or for one.
  Kept* KeptOf(std::optional<std::size_t> device_index);
  std::optional<Ticket> Next(std::optional<std::size_t> device_index);
  /// What was kept first, else what the feed gives. None at the end.
  std::optional<Taken> TakeNext(std::optional<std::size_t> device_index);
  /// What the feed gives. Ctrl-C ends the wait.
  ReadResult Await(std::optional<std::size_t> device_index, Taken* taken, Status* status);
  /// Batches that the stream refused, or that HasNext found, stay for the next call of their kind.
  /// Without Python's lock.
  void SetAside(std::optional<std::size_t> device_index, Taken taken);
  std::optional<Taken> TakeSetAside(std::optional<std::size_t> device_index);
  /// Whether a batch was taken that no loop has.
  bool SomeAreKept();
  /// The fields, and the mask behind them where there is one.
  Instance TensorsOf(const SharedLease& lease) const;
  void NoteHandedOut(Ticket ticket);
  DeviceFeed* Started() const;
  /// Calls `restart` of the feed, or where it has not started of its chain, while nobody else is in
  /// a call. Raises DeadlineExceeded where others do not leave theirs.
  template <typename Function>
  void Restart(Function&& restart);
  void Forget();
  /// Calls `drop` for what is kept for each kind of call, and drops what was set aside.
  /// Without Python's lock, which the batches' Python objects take.
  template <typename Function>
  void ForEachKept(Function&& drop);

  ReaderHandle input_;
  const FeedOptions options_;
  const std::string devices_reason_;
  const DeviceStream stream_;
  mutable FeedGate gate_;
  mutable std::mutex mutex_;  // guards the following; taken only where Python's lock is not held
  std::optional<OwnedHere<DeviceFeed>> feed_;
  std::map<std::optional<std::size_t>, std::deque<Taken>> set_aside_;  // by what was asked for
  std::optional<Part> last_;
  std::map<std::size_t, Part> last_of_;  // by the device's place in the list
  std::optional<BatchOrigin> furthest_;
  std::uint64_t starts_ = 0;             // how often it was started again
  std::map<std::size_t, Kept> kept_of_;  // as last_of_; its entries stay where they are
  Kept kept_;                            // guards itself
};

}  // namespace ringfeed::python
