#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "ringfeed/instance.h"
#include "ringfeed/status.h"
#include "ringfeed/tensor.h"

/// @file
/// @details Batches for Arrow's libraries (pyarrow, Polars, DuckDB, cuDF), their memory shared, by
/// Arrow's C data, C stream and C device data interfaces. Their structures stand here as those
/// specifications give them, under their guards: ringfeed needs no library of Arrow's.

// NOLINTBEGIN
extern "C" {

#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE

#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE 2
#define ARROW_FLAG_MAP_KEYS_SORTED 4

/// The type of a column, or of a struct of columns, by Arrow's C data interface.
struct ArrowSchema {
  const char* format;
  const char* name;
  const char* metadata;
  int64_t flags;
  int64_t n_children;
  struct ArrowSchema** children;
  struct ArrowSchema* dictionary;
  void (*release)(struct ArrowSchema*);  ///< null: released, or moved elsewhere
  void* private_data;
};

/// The values of a column, or of a struct of columns, by Arrow's C data interface.
struct ArrowArray {
  int64_t length;
  int64_t null_count;
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  const void** buffers;
  struct ArrowArray** children;
  struct ArrowArray* dictionary;
  void (*release)(struct ArrowArray*);  ///< null: released, or moved elsewhere
  void* private_data;
};

#endif  // ARROW_C_DATA_INTERFACE

#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE

/// Arrays of one type, one after another, by Arrow's C stream interface.
struct ArrowArrayStream {
  int (*get_schema)(struct ArrowArrayStream*, struct ArrowSchema* out);
  int (*get_next)(struct ArrowArrayStream*, struct ArrowArray* out);
  const char* (*get_last_error)(struct ArrowArrayStream*);
  void (*release)(struct ArrowArrayStream*);
  void* private_data;
};

#endif  // ARROW_C_STREAM_INTERFACE

#ifndef ARROW_C_DEVICE_DATA_INTERFACE
#define ARROW_C_DEVICE_DATA_INTERFACE

typedef int32_t ArrowDeviceType;
#define ARROW_DEVICE_CPU 1
#define ARROW_DEVICE_CUDA 2
#define ARROW_DEVICE_CUDA_HOST 3

/// An array whose buffers lie on a device, by Arrow's C device data interface.
struct ArrowDeviceArray {
  struct ArrowArray array;
  int64_t device_id;
  ArrowDeviceType device_type;
  void* sync_event;
  int64_t reserved[3];
};

#endif  // ARROW_C_DEVICE_DATA_INTERFACE
}
// NOLINTEND

namespace ringfeed {

/// Exports a batch as a struct of columns, one for each field, by the field's name ("bytes", or
/// "0", "1", … of a batch without names). Nothing is copied but bools, which Arrow keeps as bits.
///
/// | field | column |
/// |---|---|
/// | a number for each row | that number type |
/// | [rows, a, b] | fixed-size lists of a fixed-size lists of b |
/// | ragged | large lists of its steps; nested LoD: lists of lists |
/// | ragged uint8 without further dimensions | large binary |
///
/// There are no nulls. Each column holds its share of the tensor's owner, and so the batch's slot,
/// until `release`: once, from any thread. A consumer that keeps columns keeps slots: it copies
/// them, or ReserveBatches says how many there are.
///
/// Fails, and leaves the structures as they are: kInvalidArgument for a record (a chain without
/// Batch), and for a field whose rows are not as many as those of the first one; kUnsupported for
/// bfloat16, which Arrow does not have, and for a tensor on a device. Does not block.
Status ExportArrow(const Instance& batch, ArrowSchema* schema, ArrowArray* array);
/// The same of one field, as a column without a name.
Status ExportArrow(const Tensor& field, ArrowSchema* schema, ArrowArray* array);

/// As ExportArrow, of a batch in any memory; an emulated device's counts as the host's. Of a batch
/// on a CUDA device all fields must lie there, and bools become uint8. `offsets` has for each field
/// what SharedLease::Offsets gives, none if it is not ragged; it is empty for host memory.
///
/// The result's sync_event is null, so the tensors must be ready, as after
/// SharedLease::Of(lease) or SharedLease::WaitHost. The work of the consumer that may go on after
/// `release` must be known to the lease (SharedLease::UseOn). kUnsupported for nested LoD.
Status ExportArrowDevice(const Instance& batch, const std::vector<std::optional<Tensor>>& offsets,
                         ArrowSchema* schema, ArrowDeviceArray* array);

/// Exports batches one after another. `next` fills an empty instance, false at the end; it is
/// called by the consumer's get_schema and get_next, in the consumer's threads, one at a time, and
/// destroyed by `release`. What it throws, and a batch that has other columns than the first one,
/// is an error of the stream (EIO, EINVAL) from then on. The type is the first batch's: a stream
/// without batches has no columns.
void ExportArrowStream(std::function<bool(Instance* batch)> next, ArrowArrayStream* stream);

}  // namespace ringfeed
