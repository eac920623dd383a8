#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "ringfeed/device_feed.h"

namespace ringfeed {

/// A lease that its tensors hold together: for batches that go on as tensors alone, and for who
/// learns only later on which streams a batch is used, as bindings do, whose consumers name their
/// stream when they take a tensor. It is released when
/// the last copy of its tensors and the last pointer to it go, behind what was enqueued until then
/// on the streams of UseOn.
///
/// Thread safety: all methods from any thread.
class SharedLease : public std::enable_shared_from_this<SharedLease> {
 public:
  /// Takes the lease over. Null: waits until the copy is done, so that the tensors are ready for
  /// any stream; else makes `stream` wait for it, as UseOn. Throws Error as DeviceLease::On.
  static std::shared_ptr<SharedLease> Of(DeviceLease lease, DeviceStream stream = {});

  /// As of Of.
  DeviceStream first_stream() const { return first_stream_; }
  /// The tensors, with this lease as their owner; so are those of Offsets and Mask, which lie in
  /// the device's memory beside them.
  Instance Tensors() const;
  /// DeviceLease::DeviceOffsets, as int64 [rows + 1]; none for other fields.
  std::optional<Tensor> Offsets(std::size_t field) const;
  /// DeviceLease::DeviceMask, as uint8 [rows]; none where the feed makes none, and of no rows.
  std::optional<Tensor> Mask() const;
  /// As DeviceLease::Count.
  void Count();
  /// Makes `stream` wait for the copy (the host does not), and the slot be written again only
  /// behind what is enqueued on it until the release. The stream must live until then. Throws Error
  /// as DeviceLease::On.
  void UseOn(DeviceStream stream);

  // Numbers that DLPack's Python protocol has for streams of CUDA.
  static constexpr std::int64_t kNoWait = -1;
  static constexpr std::int64_t kLegacyStream = 1;
  static constexpr std::int64_t kPerThreadStream = 2;
  /// UseOn by such a number; none: the legacy stream; kNoWait: nothing is done. The release is put
  /// behind the per-thread stream of whichever thread by the legacy one, which waits for it. Throws
  /// Error(kInvalidArgument) for 0, which is ambiguous, and for others below 0.
  void UseOnNumbered(std::optional<std::int64_t> number);

 private:
  explicit SharedLease(DeviceLease lease) : lease_(std::move(lease)) {}
  Tensor OwnTensor(DType dtype, std::uint64_t count, const void* data) const;

  std::mutex mutex_;  ///< guards lease_ against two streams at a time
  DeviceLease lease_;
  DeviceStream first_stream_;
  Instance views_;
};

}  // namespace ringfeed
