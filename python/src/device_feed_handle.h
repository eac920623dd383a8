#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "feed_gate.h"
#include "fork_guard.h"
#include "handover.h"
#include "reader_handle.h"
#include "ringfeed/device_feed.h"
#include "ringfeed/export/shared_lease.h"

namespace ringfeed::python {

/// A device feed as Python holds it, over a chain that nothing else reads. It starts with the first
/// batch that is asked for. Waits are made without the lock and end on Ctrl-C.
///
/// Thread safety: all methods from any thread; a loop per device may be in a thread of its own.
class DeviceFeedHandle {
 public:
  /// The facts about a batch, or a device's part of one.
  struct Part {
    int device = 0;
    std::uint64_t rows = 0;
    std::uint64_t valid_rows = 0;
    std::size_t slot = 0;
    std::uint64_t generation = 0;
  };

  /// `outputs`: the stage's, as fields. `devices_reason`: which devices these are, if the user left
  /// the choice open. `stream`: the stream for work on the batches; null: batches come after their
  /// copy is done.
  DeviceFeedHandle(ReaderHandle input, FeedOptions options, std::vector<SlotSpec> outputs,
                   std::string devices_reason, DeviceStream stream);
  ~DeviceFeedHandle();

  /// The next batch, of all devices in turn or of one, in `form`. Null at the end. Raises the
  /// failure of the chain or a device. It counts as handed out when this returns it. If the call is
  /// interrupted, or the stream refuses the batch, the next call for all devices, or for this one,
  /// returns it.
  nanobind::object NextAs(std::optional<std::size_t> device_index, const BatchForm& form);
  /// Whether a batch or a failure follows. Waits for it; Ctrl-C ends the wait. Do not call it while
  /// other threads read.
  bool HasNext();
  /// Whether the batches have a mask as an additional field.
  bool masked() const { return options_.last_step == LastStep::kPad; }
  /// The last batch handed out, for all devices or for one.
  std::optional<Part> LastPart(std::optional<std::size_t> device_index) const;
  /// The furthest batch handed out: a loop per device may be ahead of another's.
  std::optional<BatchOrigin> Furthest() const;
  const ReaderHandle& input() const { return input_; }
  std::string kind() const { return std::string(options_.backend->name()); }
  /// The fields that the stage makes, after the batch's own.
  const std::vector<SlotSpec>& outputs() const { return outputs_; }
  const std::string& devices_reason() const { return devices_reason_; }
  /// Starts the feed if it was not started.
  DeviceFeed& feed();

  void Reset();
  void Restore(const std::string& position);
  void SeekTo(std::uint64_t batch);
  std::string Position();
  std::optional<FeedStats> Stats() const;
  /// Ends all threads; held batches stay valid. Does nothing in a forked child.
  void Close();

 private:
  /// What is noted about a batch when it counts.
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

  /// The kept batches of the calls for all devices, or for one.
  Kept* KeptOf(std::optional<std::size_t> device_index);
  std::optional<Ticket> Next(std::optional<std::size_t> device_index);
  /// First the kept batches, then the feed's. None at the end.
  std::optional<Taken> TakeNext(std::optional<std::size_t> device_index);
  /// Waits for the feed's next batch. Ctrl-C ends the wait.
  ReadResult Await(std::optional<std::size_t> device_index, Taken* taken, Status* status);
  /// Keeps a batch that the stream refused, or that HasNext found, for the next call of its kind.
  /// Without Python's lock.
  void SetAside(std::optional<std::size_t> device_index, Taken taken);
  std::optional<Taken> TakeSetAside(std::optional<std::size_t> device_index);
  /// Whether a batch was taken that has reached no loop.
  bool SomeAreKept();
  /// The fields, and after them the mask if there is one.
  Instance TensorsOf(const SharedLease& lease) const;
  void NoteHandedOut(Ticket ticket);
  DeviceFeed* Started() const;
  /// Calls `restart` of the feed, or of its chain if the feed has not started, while no other
  /// thread is in a call. Raises DeadlineExceeded if other threads do not leave theirs.
  template <typename Function>
  void Restart(Function&& restart);
  void Forget();
  /// Calls `drop` for the kept batches of each kind of call, and drops those set aside. Without
  /// Python's lock, which the batches' Python objects take.
  template <typename Function>
  void ForEachKept(Function&& drop);

  ReaderHandle input_;
  const FeedOptions options_;
  const std::vector<SlotSpec> outputs_;
  const std::string devices_reason_;
  const DeviceStream stream_;
  mutable FeedGate gate_;
  mutable std::mutex mutex_;  // guards the following; never taken with Python's lock held
  std::optional<OwnedHere<DeviceFeed>> feed_;
  std::map<std::optional<std::size_t>, std::deque<Taken>> set_aside_;  // by the kind of call
  std::optional<Part> last_;
  std::map<std::size_t, Part> last_of_;  // by the device's place in the list
  std::optional<BatchOrigin> furthest_;
  std::uint64_t starts_ = 0;             // how often it was started again
  std::map<std::size_t, Kept> kept_of_;  // as last_of_; its entries do not move
  Kept kept_;                            // guards itself
};

}  // namespace ringfeed::python
