#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "fork_guard.h"
#include "ringfeed/export/shared_lease.h"
#include "ringfeed/tensor.h"

namespace ringfeed::python {

/// A tensor as Python sees it: a view that keeps its memory. Others take it without a copy by
/// DLPack, the buffer protocol, __array_interface__ or __cuda_array_interface__.
class Array {
 public:
  /// No field of the lease's batch: offsets, a mask.
  static constexpr std::size_t kNoField = ~std::size_t{0};

  /// `lease` is that of a device's memory, null for others; `field` the place in its batch.
  explicit Array(Tensor tensor, std::shared_ptr<SharedLease> lease = nullptr,
                 std::size_t field = kNoField)
      : tensor_(std::move(tensor)), lease_(std::move(lease)), field_(field), forks_(ForkCount()) {}
  /// Of memory that forked children have, too: not of a reader's.
  static Array OfOwnMemory(Tensor tensor);
  /// What lies in the same memory, a part or the offsets.
  Array ViewOf(Tensor part) const;
  /// The same of what lies in host memory, whatever the values lie in.
  Array HostViewOf(Tensor part) const;
  const Tensor& tensor() const { return tensor_; }
  SharedLease* lease() const { return lease_.get(); }
  /// The same array, for a consumer that computes on that stream, as DLPack numbers them, and is
  /// told so by __cuda_array_interface__. The stream waits for a device's data, and the memory for
  /// what is enqueued there. Throws ValueError for what numbers no stream, BufferError for host
  /// memory.
  Array OnStream(std::int64_t stream) const;
  /// By OnStream.
  std::optional<std::int64_t> told_stream() const { return told_stream_; }

  /// A capsule as DLPack's Python protocol has it.
  nanobind::object Dlpack(std::optional<std::pair<int, int>> max_version,
                          std::optional<std::pair<int, int>> device,
                          std::optional<bool> copy) const;
  /// Of a ragged field the rows' offsets, in the memory that the values lie in; none of others.
  std::optional<Array> Offsets() const;
  /// "<f4" and so on; throws TypeError for bfloat16, which that language has no word for.
  const char* TypeString() const;
  /// Throws TypeError if it does not lie in host memory, and as NeedHere does.
  void NeedHost() const;
  /// Whether this process has the memory: a forked child does not have its parent's batches.
  bool IsHere() const;
  /// Throws std::runtime_error if this process does not have the memory.
  void NeedHere() const;

 private:
  static constexpr int kEveryProcess = -1;

  Tensor tensor_;
  std::shared_ptr<SharedLease> lease_;
  std::size_t field_;
  std::optional<std::int64_t> told_stream_;
  int forks_;  // of the process that has the memory
};

/// Whether an array that goes in is copied.
enum class CopyInput { kAlways, kIfNeeded, kNever };

/// Where a copy goes: so many bytes.
using Allocate = std::function<std::shared_ptr<std::byte>(std::size_t bytes)>;
/// Memory of its own.
std::shared_ptr<std::byte> NewBytes(std::size_t bytes);

/// A tensor of what `source` is: an Array, or whatever exports a buffer or DLPack of the CPU, in C
/// order; not of scalars and lists. With kNever, or where it can be, its memory is shared, and
/// `source` kept alive; a copy is made with the lock released. Throws TypeError, and ValueError for
/// kNever where a copy is needed: of what is read-only or not in C order.
Tensor TensorOf(nanobind::handle source, CopyInput copy, const Allocate& allocate = NewBytes);

/// A copy of a host tensor.
Tensor CopyOf(const Tensor& tensor, const Allocate& allocate = NewBytes);

void BindArray(nanobind::module_& module);
/// What an Array says of its elements to Python's own code: items, lists, copies, text, pickles.
void BindElements(nanobind::class_<Array>* array);

}  // namespace ringfeed::python
