#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "ringfeed/device_feed.h"

namespace ringfeed {

/// A lease that its tensors hold together. For batches that go on as tensors alone, and for
/// programs that learn the streams of a batch only later, as bindings do: their consumers name
/// their stream when they take a tensor. It is released when the last copy of its tensors and the
/// last pointer to it are gone; the slot is written again only after the work enqueued until then
/// on the streams of UseOn.
///
/// Thread safety: all methods from any thread.
class SharedLease : public std::enable_shared_from_this<SharedLease> {
 public:
  /// Takes the lease over. Null: waits until the copy is done, so that the tensors are ready for
  /// any stream; else makes `stream` wait for it, as UseOn. Throws Error as DeviceLease::On;
  /// the caller then keeps the lease.
  static std::shared_ptr<SharedLease> Of(DeviceLease&& lease, DeviceStream stream = {});

  /// Of without a wait, for consumers that mostly name a stream: the host waits when the tensors
  /// are first asked for by one that names none (UseOnNumbered, InterfaceStream), or by WaitHost.
  static std::shared_ptr<SharedLease> Unwaited(DeviceLease&& lease);

  /// The stream that was given to Of.
  DeviceStream first_stream() const { return first_stream_; }
  /// The tensors, with this lease as their owner; so are those of Offsets and Mask, which lie in
  /// the device's memory beside them.
  Instance Tensors() const;
  /// The offsets of a ragged field's rows as a tensor: int64 [rows + 1],
  /// DeviceLease::DeviceOffsets. None for other fields.
  std::optional<Tensor> Offsets(std::size_t field) const;
  /// Which rows count as a tensor: uint8 [rows], DeviceLease::DeviceMask. None if the feed makes
  /// none, and for a batch of no rows.
  std::optional<Tensor> Mask() const;
  /// As DeviceLease::Count.
  void Count();
  /// Blocks until the copy is done: then the tensors are ready for any stream. Throws Error as
  /// DeviceLease::On.
  void WaitHost();
  /// Makes `stream` wait for the copy (the host does not), and the slot be written again only
  /// after what is enqueued on it until the release. The stream must live until then. Throws Error
  /// as DeviceLease::On.
  void UseOn(DeviceStream stream);

  // Numbers that DLPack's Python protocol has for streams of CUDA.
  static constexpr std::int64_t kNoWait = -1;
  static constexpr std::int64_t kLegacyStream = 1;
  static constexpr std::int64_t kPerThreadStream = 2;
  /// UseOn by such a number, or by a cudaStream_t as a number. None stands for the legacy stream;
  /// kNoWait does nothing. Of an Unwaited lease the host waits in both cases. Throws
  /// Error(kInvalidArgument) for 0, which is ambiguous, and for other numbers below 0.
  void UseOnNumbered(std::optional<std::int64_t> number);

  /// For consumers that are told a stream and tell none, as those of `__cuda_array_interface__`:
  /// the number of the stream that their work must come after. It is `told`, if the program named
  /// the consumer's stream (UseOnNumbered); else that of Of; else the legacy stream, for which the
  /// tensors are ready. Without `told`, the slot is written again only after the work enqueued on
  /// the legacy stream until the release. That stream waits for all streams of the device but those
  /// made not to (cudaStreamNonBlocking): work on such a stream is not waited for unless the stream
  /// was named. Throws Error as UseOnNumbered.
  std::int64_t InterfaceStream(std::optional<std::int64_t> told = std::nullopt);

 private:
  explicit SharedLease(DeviceLease lease) : lease_(std::move(lease)) {}
  void WaitOnce();
  Tensor OwnTensor(DType dtype, std::uint64_t count, const void* data) const;

  std::mutex mutex_;  ///< guards lease_ against two streams at a time
  DeviceLease lease_;
  DeviceStream first_stream_;
  bool is_unwaited_ = false;  ///< nothing waited for the copy yet; under mutex_ too
  Instance views_;
};

}  // namespace ringfeed
