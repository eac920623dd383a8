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

/// A tensor as Python sees it: a view that keeps its memory. Other libraries take it without a copy
/// by DLPack, the buffer protocol, __array_interface__ or __cuda_array_interface__.
class Array {
 public:
  /// No field of the lease's batch: offsets, a mask.
  static constexpr std::size_t kNoField = ~std::size_t{0};

  /// `lease` is the lease of a device's memory, null for other memory; `field` the place in its
  /// batch.
  explicit Array(Tensor tensor, std::shared_ptr<SharedLease> lease = nullptr,
                 std::size_t field = kNoField)
      : tensor_(std::move(tensor)), lease_(std::move(lease)), field_(field), forks_(ForkCount()) {}
  /// For memory that forked children have, too: not a reader's.
  static Array OfOwnMemory(Tensor tensor);
  /// A view of something in the same memory, a part or the offsets.
  Array ViewOf(Tensor part) const;
  /// The same for a tensor in host memory, whatever memory the values are in.
  Array HostViewOf(Tensor part) const;
  const Tensor& tensor() const { return tensor_; }
  SharedLease* lease() const { return lease_.get(); }
  /// The same array, for a consumer that computes on that stream (numbered as in DLPack);
  /// __cuda_array_interface__ tells the consumer that stream. The stream waits for a device's data,
  /// and the memory for the work enqueued there. Throws ValueError for a number of no stream,
  /// BufferError for host memory.
  Array OnStream(std::int64_t stream) const;
  /// The stream given to OnStream.
  std::optional<std::int64_t> told_stream() const { return told_stream_; }

  /// A capsule as DLPack's Python protocol has it.
  nanobind::object Dlpack(std::optional<std::pair<int, int>> max_version,
                          std::optional<std::pair<int, int>> device,
                          std::optional<bool> copy) const;
  /// The rows' offsets of a ragged field, in the same memory as the values; none for other fields.
  std::optional<Array> Offsets() const;
  /// "<f4" and so on; throws TypeError for bfloat16, which that notation lacks.
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

/// Whether an array given as input is copied.
enum class CopyInput { kAlways, kIfNeeded, kNever };

/// Allocates so many bytes for a copy.
using Allocate = std::function<std::shared_ptr<std::byte>(std::size_t bytes)>;
/// Memory of its own.
std::shared_ptr<std::byte> NewBytes(std::size_t bytes);

/// A tensor of `source`: an Array, or an object that exports a buffer or DLPack of the CPU, in C
/// order; not for scalars and lists. With kNever, or if possible, it shares the memory and keeps
/// `source` alive; a copy is made with the lock released. Throws TypeError, and ValueError for
/// kNever if a copy is needed because the source is read-only or not in C order.
Tensor TensorOf(nanobind::handle source, CopyInput copy, const Allocate& allocate = NewBytes);

/// A copy of a host tensor.
Tensor CopyOf(const Tensor& tensor, const Allocate& allocate = NewBytes);

void BindArray(nanobind::module_& module);
/// What Python code can do with an Array's elements: items, lists, copies, text, pickles.
void BindElements(nanobind::class_<Array>* array);
/// How Arrow's libraries take an Array.
void BindArrowExchange(nanobind::class_<Array>* array);

}  // namespace ringfeed::python
