#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ringfeed/reader.h"

namespace ringfeed {

/// The next batch for each of `devices`, in their order, of a reader of batches; at the end of the
/// data, where some devices would get none, the rows of the others are spread anew: each device
/// gets rows / devices of them, the first rows % devices one more. So every device steps equally
/// often, and every row is delivered once; with fewer rows than devices the last devices get
/// batches of no rows. Rows are top-level sequences where a tensor has LoD. Tensors of the last
/// step that are spread own their memory, the others are as the reader delivers them.
///
/// kEnd once there is nothing left; kFailed: see batches.status(), what came before it is delivered
/// first. Blocks; one thread at a time, which must be able to hold `devices` batches at once
/// (BatchOptions::slots). Throws Error where the tensors of an instance differ in their rows.
class DeviceBatches {
 public:
  DeviceBatches(Reader batches, std::size_t devices);
  ReadResult ReadNext(std::vector<Instance>* per_device);

 private:
  Reader batches_;
  const std::size_t devices_;
};

/// Rows of a tensor: top-level sequences where it has LoD, else the first dimension (0 of a
/// scalar).
std::int64_t RowsOf(const Tensor& tensor);
/// Rows of all tensors of an instance. Throws Error(kInvalidArgument) where they differ.
std::int64_t RowsOf(const Instance& instance);
/// Rows [begin, end) as views into the same memory, which they keep alive; only offsets are copied,
/// and start at 0.
Instance SliceRows(const Instance& instance, std::int64_t begin, std::int64_t end);

/// What DeviceBatches does at the end: instances of equal slots, spread evenly over `devices`.
std::vector<Instance> SpreadRows(const std::vector<Instance>& instances, std::size_t devices);

}  // namespace ringfeed
