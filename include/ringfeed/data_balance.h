#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ringfeed/reader.h"

namespace ringfeed {

/// Takes batches from a reader in steps: one batch for each of `devices`, in their order. If at the
/// end of the data some devices would get none, the rows of the others are spread anew: each device
/// gets rows / devices of them, the first rows % devices one more. So every device steps equally
/// often, and every row is delivered once. With fewer rows than devices the last devices get
/// batches of no rows. Rows are top-level sequences if a tensor has LoD. One thread at a time.
class DeviceBatches {
 public:
  /// `batches` is a reader that is not being read and was not read before. Throws
  /// Error(kInvalidArgument) for no devices, and as Reader::ReserveBatches, since a step holds a
  /// batch for each device.
  DeviceBatches(Reader batches, std::size_t devices);
  /// The next step: a batch for each device, in *per_device, after its old batches are dropped. A
  /// caller that keeps more of them raises BatchOptions::slots. Tensors of the last step that were
  /// spread own their memory; the others are as the reader delivers them. Blocks. kEnd if there is
  /// nothing left; kFailed after everything that came before the failure (status() of the reader
  /// has the reason). Throws Error if the tensors of an instance differ in their rows.
  ReadResult ReadNext(std::vector<Instance>* per_device);

 private:
  Reader batches_;
  const std::size_t devices_;
};

/// Rows of a tensor: top-level sequences if it has LoD, else the first dimension (0 of a
/// scalar).
std::int64_t RowsOf(const Tensor& tensor);
/// The rows that all tensors of an instance have. Throws Error(kInvalidArgument) if they differ;
/// Instance::Rows goes by the first tensor.
std::int64_t RowsOf(const Instance& instance);
/// Rows [begin, end) of an instance, as views into its memory, which they keep alive. Only offsets
/// are copied; they start at 0. The names stay.
Instance SliceRows(const Instance& instance, std::int64_t begin, std::int64_t end);

/// The rows of instances of equal slots, spread evenly over `devices` as DeviceBatches does at the
/// end. The result owns its memory: everything is copied.
std::vector<Instance> SpreadRows(const std::vector<Instance>& instances, std::size_t devices);

}  // namespace ringfeed
