#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ringfeed/batch_origin.h"
#include "ringfeed/devices/device_backend.h"
#include "ringfeed/devices/transfer_costs.h"
#include "ringfeed/queue/deadline.h"
#include "ringfeed/reader.h"
#include "ringfeed/stats.h"
#include "ringfeed/status.h"
#include "ringfeed/tensor.h"

namespace ringfeed {

class FeedCore;
class Timeline;

/// Which device gets which rows.
enum class Distribution : std::uint8_t {
  kRoundRobin,  ///< batch k goes to device k mod devices
  kSplit,       ///< every batch is cut into as many parts as there are devices, in order of rows
  /// Every batch goes whole to each device of a group (FeedOptions::replicas), for devices that
  /// share the work on it: tensor or context parallelism. It is read once and copied to each. Batch
  /// k goes to group k mod groups; LastStep counts groups as it counts devices otherwise.
  kReplicate,
};

/// What happens in the last step if there are not enough batches for every device.
enum class LastStep : std::uint8_t {
  kUneven,  ///< the first devices step once more than the others
  kDrop,    ///< left out, and counted; split batches: one with fewer rows than the largest
  kPad,     ///< every device gets rows of the usual number: those missing are repeated, and masked
  kShort,   ///< its rows are spread over all devices: each steps as often, the last time with fewer
};

/// How the bytes of a batch come onto its device. It never changes the data or their order.
enum class TransferPlan : std::uint8_t {
  /// The CPU makes the batch, but leaves fields of cold rows (read past the page cache) in the
  /// pinned memory they were read into, if that costs less (FeedOptions::costs). The device takes
  /// them from there: long fields as kMembers, shorter ones close together as kSlabs.
  kAuto,
  kBatch,  ///< the CPU makes the batch in pinned memory, and one copy takes it
  /// Copies fields of rows one by one from the memory they were read into, if they are long enough
  /// for that to cost no more than the CPU's copy.
  kMembers,
  /// Copies the memory that rows were read into together, if two thirds of it are wanted, and the
  /// device takes the fields to their places. For fields long enough for that to cost no more than
  /// the CPU's copy.
  kSlabs,
  /// NVIDIA's cuFile reads files straight into the device's memory, and the device takes the fields
  /// to their places: no CPU touches them. For rows, arrays and unconverted tokens that are asked
  /// for by number (a global shuffle, say), and for one device. Else as kSlabs. DeviceFeedStats
  /// says which, and why. kAuto takes it if it is GPUDirect and records are long.
  kDirect,
};
/// All of them.
inline constexpr std::array kTransferPlans = {TransferPlan::kAuto, TransferPlan::kBatch,
                                              TransferPlan::kMembers, TransferPlan::kSlabs,
                                              TransferPlan::kDirect};
/// "auto", "batch", "members", "slabs", "direct".
std::string_view TransferPlanName(TransferPlan plan);
/// The plan of that name. Throws Error(kInvalidArgument) if there is no such plan.
TransferPlan TransferPlanNamed(std::string_view name);

// What a device makes of one field of a batch after the copy. `field` counts from 0.

/// u8 to numbers: see CastNormalize. With channels_first or a crop the field's rows are [height,
/// width, channels]; mean and scale are per channel, the last dimension (1 to 4), or one for all.
///
/// The crop is in the middle of the image, or at the place that `crops`, another field of the same
/// batch, gives: int32 [rows, 3], a row's top, left, and whether it is mirrored left to right (not
/// 0). It stays a field of the batch. So the result for a sample depends on what a file or Map
/// wrote beside it, and not on which process reads it when. A crop that would reach beyond an edge
/// is moved to it, without a message: the mistake is in the field.
struct NormalizeField {
  std::size_t field = 0;
  DType dtype = DType::kFloat32;  ///< kFloat32, kFloat16, kBFloat16
  std::vector<float> mean{};      ///< empty: 0
  std::vector<float> scale{};     ///< empty: 1
  bool channels_first = false;
  std::size_t crop_height = 0;         ///< in pixels, at most the image's; 0: all of it
  std::size_t crop_width = 0;          ///< the same
  std::optional<std::size_t> crops{};  ///< a field's number; nothing: the middle, not mirrored
};
/// u16 to kInt32 or kInt64.
struct WidenField {
  std::size_t field = 0;
  DType dtype = DType::kInt64;
};
/// A ragged field to [rows, length, …]: longer rows are cut, shorter ones filled up with `padding`,
/// bytes of one element (empty: zero).
struct PadField {
  std::size_t field = 0;
  std::size_t length = 0;
  std::vector<std::byte> padding{};
};
/// A transform of one field of each batch on the device, after its copy.
using FieldTransform = std::variant<NormalizeField, WidenField, PadField>;

/// A field that a stage makes: [rows, row…], after the batch's own fields.
struct StageOutput {
  DType dtype = DType::kFloat32;
  Shape row{};  ///< of one row; each dimension is at least 1
};

/// What a stage is called with: a batch, or a device's part of one, that has at least one row.
/// Valid during the call; the device's memory until what the call enqueued is done.
struct StageCall {
  int device = 0;         ///< its number in the backend
  DeviceStream stream{};  ///< for `enqueue`; null for `on_host`
  /// The fields after the transforms, as the lease shows them: `data` is in the device's memory
  /// (of FeedOptions::host_fields in the host's), and not to be written; `lod` is in the host's.
  std::span<const Tensor> fields{};
  /// Of each field as DeviceLease::DeviceOffsets.
  std::span<const std::int64_t* const> offsets{};
  std::span<const Tensor> outputs{};  ///< in the order of DeviceStage::outputs
  std::uint64_t valid_rows = 0;       ///< with LastStep::kPad: rows from here on are repeated ones

  /// Where that output is to be written, in the device's memory.
  std::byte* output(std::size_t number) const {
    return const_cast<std::byte*>(outputs[number].data);
  }
};

/// Work of the program's own on each batch: after the transforms, on their stream, before the
/// lease. A pure function of the batch: it keeps no position, and may be called again for a batch
/// in which damage was found. What it throws, or a Status that is not OK, is the batch's failure:
/// the feed ends with it, after everything good, and may be started again.
///
/// Calls are made for one batch of a device at a time; those of several devices may overlap. A feed
/// that is read, started again or closed by a stage refuses: it may wait for that stage.
struct DeviceStage {
  std::vector<StageOutput> outputs{};
  /// For devices with memory of their own, CUDA's: enqueues the work on `stream`, and returns. It
  /// is called on the feed's copying thread, to which the device is bound: a call that blocks holds
  /// up the feed. The device frees nothing of a batch before the work is done.
  std::function<Status(const StageCall&)> enqueue{};
  /// Its twin for emulated devices, whose memory is the host's: does the work, and returns when it
  /// is done. It runs in the order of the stream, on the stream's thread, and must not call the
  /// devices. The lease comes after it.
  std::function<Status(const StageCall&)> on_host{};
};

/// Device memory for slots from an allocator of the program's own: Torch's, RMM's, a pool. Both
/// functions or none. A feed calls them for one device at a time from one thread: as it is made,
/// from its copying thread, and as it closes or its last lease goes. They may block, as the
/// device's own allocations do. What they throw is a failure like a Status that they return.
struct SlotAllocator {
  /// Makes `bytes` of a device's memory, on a boundary of 256 bytes at least, into *data. The first
  /// work that uses it is enqueued on `stream`, which outlives it.
  std::function<Status(int device, std::size_t bytes, DeviceStream stream, std::byte** data)>
      allocate{};
  /// Takes it back, with the `stream` that it was made for. The host has seen all work done that
  /// used it. A failure ends the feed, or is what Close returns. Never called for memory that is
  /// given up (DeviceFeed::Close).
  std::function<Status(int device, std::byte* data, std::size_t bytes, DeviceStream stream)> free{};
};

/// How a feed is made.
struct FeedOptions {
  /// Defaults with the slots and the transfer that `ringfeed tune` found and wrote to `path`, for
  /// the kind of devices that it was tuned for alone. Plain defaults if it was tuned for none.
  /// Throws Error as ReadTuning (tuning.h).
  static FeedOptions Tuned(const std::string& path);

  /// Null: CUDA's devices, as by OpenDevices("cuda") (devices/device_kinds.h): an error if there
  /// are none, or the program did not call UseCuda. OpenDevices("emu:2") are emulated ones, and
  /// OpenAutoDevices takes what there is.
  std::shared_ptr<DeviceBackend> backend{};
  /// By number; empty: all that there are, or, if a launcher started several processes on this
  /// machine, the one of this process's local rank (ranks.h).
  std::vector<int> devices{};
  std::size_t slots = 3;  ///< batches on each device at a time, leased ones included; at least 2
  /// Batches that wait for a slot in host memory, at each device, 1 to 64: how far reading is ahead
  /// of the slots. Each takes pinned memory of the chain's.
  std::size_t waiting_batches = 2;
  /// Of the streams that copy and transform.
  StreamPriority priority = StreamPriority::kHigh;
  Distribution distribution = Distribution::kRoundRobin;
  /// With kReplicate: so many devices that follow each other in `devices` are a group; 0: all.
  std::size_t replicas = 0;
  LastStep last_step = LastStep::kUneven;
  /// Device memory of one slot, in bytes: all slots are made with the feed. 0: learned from the
  /// batches that come, with a quarter more if rows are ragged or a batch was larger than those
  /// before. A fixed slot has room for a whole batch of the chain's Batch, however few rows the
  /// first one has. DeviceFeedStats::slot_bytes says what an earlier run came to.
  std::size_t slot_bytes = 0;
  /// Where the memory of slots comes from; empty: the backend.
  SlotAllocator slot_allocator{};
  /// A batch that does not fit its slot fails the feed; else the slot becomes bigger, which is
  /// counted. In a fixed slot, what is not ragged (fields, output of transforms, the mask) stands
  /// at the same address in every batch, for graphs that were captured with a slot's batch; each
  /// field is copied by itself.
  bool fixed_slots = false;
  std::vector<FieldTransform> transforms{};
  /// Fields that stay in host memory, by number: encoded images, for a decoder that takes pointers
  /// and lengths of the host's. A lease's tensor of such a field is in pinned memory until the work
  /// is done that was enqueued on the lease's streams before Release: row i of a ragged one is
  /// lod[0][i] to lod[0][i + 1]. A slot is filled again only after that. For kAuto, which then is
  /// kBatch, and kBatch; without a transform. Each slot takes one more batch of the chain's memory.
  std::vector<std::size_t> host_fields{};
  /// What the program itself does with each batch on the device; empty: nothing.
  DeviceStage stage{};
  /// All but kBatch and kAuto read files that kAuto of IoOptions would map. With fixed_slots
  /// nothing is copied together.
  TransferPlan transfer = TransferPlan::kAuto;
  /// Fields of rows, cold or not, stay in the memory they were read into from so many bytes on, on
  /// average; 0: as `transfer` says.
  std::size_t least_left_bytes = 0;
  /// The costs by which `transfer` chooses the length from which fields are left, and which go
  /// together. The costs of these devices, measured by `ringfeed bench --gpu`, are
  /// TransferCosts::Load of its file.
  TransferCosts costs{};
  /// The kind of devices that these were tuned for (Tuning::devices); others are refused. "": any.
  std::string tuned_devices{};
  /// How long Next waits while only the program itself can go on: another device's batches are not
  /// taken, or other threads hold all leases. Then it fails with kDeadlineExceeded, and may be
  /// called again.
  std::int64_t patience_ms = 30'000;
  /// How long Close waits for the devices.
  std::int64_t close_timeout_ms = 10'000;
  /// What Position counts: every lease that is handed out, or, for a program that may have to hand
  /// one out again, those that DeviceLease::Count was called for.
  bool count_when_told = false;
  /// Gets what was read, copied, leased and waited for; null: no spans are noted.
  std::shared_ptr<Timeline> timeline{};
};

/// A batch on a device, or a device's part of one. Move only; destroying it is Release. Its memory
/// is written again after it was released and the work enqueued before on the streams it was used
/// on is done. It may outlive the feed. SharedLease gives it to its tensors.
///
/// Thread safety: one thread at a time; Release from any.
class DeviceLease {
 public:
  DeviceLease() = default;
  ~DeviceLease() { Release(); }
  DeviceLease(DeviceLease&& other) noexcept;
  DeviceLease& operator=(DeviceLease&& other) noexcept;

  explicit operator bool() const { return core_ != nullptr; }
  int device() const;  ///< the device's number in the backend
  /// The device's place in FeedOptions::devices.
  std::size_t device_index() const { return lane_; }
  /// The batch's number over all devices, from 0 at the feed's beginning; that of each part, if
  /// batches are split, and one for all copies of a replicated batch. origin() has its number in
  /// the chain.
  std::uint64_t number() const;
  /// The origin of its batch: Reader::Position turns it into the position after that batch, however
  /// far the feed has read ahead. The same in all parts of one batch. If the rows of a last step
  /// are repeated or spread, it is that of the step's last batch: save such a position after all
  /// devices had their parts. Valid until Release.
  const BatchOrigin& origin() const;
  /// Which slot of its device it takes, from 0.
  std::size_t slot() const { return slot_; }
  /// How often its slot was filled: it differs for every lease of that slot.
  std::uint64_t generation() const { return generation_; }
  std::uint64_t rows() const;  ///< of the tensors
  /// How many of them count: with LastStep::kPad the rows from here on are repeated ones.
  std::uint64_t valid_rows() const;

  /// Makes `stream` wait for the copy (the host does not) and gives the tensors, for work that is
  /// enqueued on it before Release: one per field, then one per output of the stage, `data` being
  /// device memory, `lod` host memory.
  /// The lease owns both (Tensor::owner is null), and the span is valid until Release. May be
  /// called for several streams. CUDA's per-thread stream (2) is the calling thread's. Release it
  /// in that thread: another one has to record on the legacy stream (1), which all such streams
  /// wait for. Throws Error if the device failed, for a lease that was released, and for a stream
  /// of another device or, of CUDA, of another context than the device's primary one.
  std::span<const Tensor> On(DeviceStream stream);
  /// Blocks until the copy is done and gives the tensors, for access from the host. Else as On.
  std::span<const Tensor> WaitHost();
  /// The offsets of the rows of a ragged field that was not padded (lod[0]), rows + 1 of them, in
  /// device memory; null for other fields. Ready if the tensors are.
  const std::int64_t* DeviceOffsets(std::size_t field) const;
  /// With LastStep::kPad: uint8 [rows] in device memory, 1 for rows that count; else null. Ready if
  /// the tensors are.
  const std::byte* DeviceMask() const;

  /// With FeedOptions::count_when_told: says that the batch has reached its consumer, so that
  /// DeviceFeed::Position may lie after it. Does nothing without that option, and if the feed was
  /// started again since. Throws Error for a lease that was released.
  void Count() const;
  /// Gives the slot back; it is written again only after the work enqueued on the streams of On.
  /// Does not block, unless the feed is gone and this was its last lease. A second call changes
  /// nothing.
  void Release() noexcept;

 private:
  friend class FeedCore;

  std::shared_ptr<FeedCore> core_;
  std::size_t lane_ = 0;
  std::size_t slot_ = 0;
  std::uint64_t generation_ = 0;
  std::uint64_t start_ = 0;  ///< of the feed: how often it was started again
};

/// What one device got so far.
struct DeviceFeedStats {
  int device = 0;
  std::size_t slots = 0;
  std::uint64_t batches = 0;          ///< leased
  std::uint64_t copied_bytes = 0;     ///< over the link
  std::uint64_t delivered_bytes = 0;  ///< of the tensors that leases show
  /// Of delivered_bytes: copied by the CPU first, because they were not one piece of pinned memory.
  std::uint64_t packed_bytes = 0;
  /// How most of them came, and why: never kAuto. Of the batches so far. The reason also names the
  /// costs, and whether the CPU or the device computes the checksums of records.
  TransferPlan transfer = TransferPlan::kBatch;
  std::string transfer_reason;
  /// Of delivered_bytes: no CPU moved them since they were read. Copied one by one, or together.
  std::uint64_t member_bytes = 0;
  std::uint64_t slab_bytes = 0;
  std::uint64_t direct_bytes = 0;    ///< the same, read into the device's memory
  std::uint64_t unpinned_bytes = 0;  ///< from memory that could not be registered: copies block
  std::uint64_t grown_slots = 0;
  std::size_t slot_bytes = 0;  ///< of device memory, in the largest slot so far
  double wait_s = 0;           ///< in Next
  StepWaits step_waits;
};
/// What a feed did so far.
struct FeedStats {
  std::vector<DeviceFeedStats> devices;
  std::uint64_t dropped_rows = 0;   ///< LastStep::kDrop
  std::uint64_t repeated_rows = 0;  ///< LastStep::kPad
  std::string pinning;              ///< "", or why some memory is not registered
};

/// Batches of any reader on devices, ahead of the training loop: each device has slots that copies
/// fill while it computes on others.
///
/// A child of fork has none of its threads: there each call throws Error, or returns it, the end of
/// the feed and of its leases does nothing, and the child makes feeds of its own.
///
/// Threads: one that reads, one per device that copies; with simulated devices none, and Next does
/// their work. Thread safety: all methods from any thread; ReInit, Restore, SeekTo and the
/// destructor while no other thread is in one.
class DeviceFeed {
 public:
  /// Starts at once. Nothing else may read the chain `reader`. Throws Error if it cannot work, with
  /// the reason and the remedy.
  explicit DeviceFeed(Reader reader, const FeedOptions& options = {});
  /// Close.
  ~DeviceFeed();
  DeviceFeed(const DeviceFeed&) = delete;
  DeviceFeed& operator=(const DeviceFeed&) = delete;

  /// The next batch in order: of device k mod devices, each in its turn. Blocks. None at the end of
  /// the data; throws Error on failure, after everything good.
  std::optional<DeviceLease> Next();
  /// The next batch of one of the devices (its place in FeedOptions::devices), for a loop per
  /// device. Else as Next().
  std::optional<DeviceLease> Next(std::size_t device_index);
  /// Next without exceptions for what data and devices can do: fills *lease, or says that the data
  /// are at their end. kFailed puts the reason into *status; after kResourceExhausted (the calling
  /// thread itself holds every slot; for patience_ms if other threads use the leases) and
  /// kDeadlineExceeded (see patience_ms) a later call may succeed. kTimeout if nothing came until
  /// the deadline: nothing is lost, the next call goes on, and patience_ms counts over all of them.
  /// A batch that is ready is delivered even after the deadline. With simulated devices, whose work
  /// this call does, it waits for a read that has begun.
  ReadResult TryNext(DeviceLease* lease, Status* status, Deadline deadline = kNoDeadline);
  ReadResult TryNext(std::size_t device_index, DeviceLease* lease, Status* status,
                     Deadline deadline = kNoDeadline);

  /// Starts again at the first batch, with the reader; at the next pass of a data set, also before
  /// a batch was taken. Drops what was prefetched; existing leases do not change. Throws Error if
  /// the reader cannot start again; if that shows only as it tries to (a reader of the program's
  /// own), the feed ends with that failure. Throws, and changes nothing, while another feed reads a
  /// chain on the same shared reader.
  void ReInit();
  /// The reader's position after the handed-out batches, whatever was prefetched. It lies after the
  /// last batch that was handed out in all its parts, like all batches before it, however far one
  /// device's loop is ahead of another's. So batches that a device got beyond it come again.
  /// Restore of a feed or of a reader takes it, with any number of devices. Throws Error if the
  /// chain has no position.
  std::string Position() const;
  /// Goes on after a position, as Reader::Restore does. Drops what was prefetched; existing leases
  /// do not change; numbers begin at 0 again, with the first device. Throws Error if the position
  /// is not this chain's, before anything is lost. Restore a reader of streams before it has a
  /// feed: a feed reads at once, and what is read of a stream does not come again.
  void Restore(const std::string& position);
  /// Goes on after the first `batch` batches of the chain. As Restore.
  void SeekTo(std::uint64_t batch);
  /// Ends the threads, waits until the copies are done (close_timeout_ms at most), and frees
  /// everything that is not leased; a lease frees its own. Next then fails with kCancelled. Returns
  /// what could not be ended in time: it is given up, not freed. A second call changes nothing.
  Status Close();

  /// The devices' numbers in the backend, in the order of FeedOptions::devices.
  const std::vector<int>& devices() const;
  const std::shared_ptr<DeviceBackend>& backend() const;
  FeedStats Stats() const;

 private:
  friend class DeviceLease;
  std::shared_ptr<FeedCore> core_;
};

/// DoubleBufferOn of decorators.h, on a device of a backend of yours, whose streams work on the
/// tensors.
Reader DoubleBufferOn(Reader input, std::shared_ptr<DeviceBackend> backend, int device,
                      std::size_t slots = 2);

}  // namespace ringfeed
