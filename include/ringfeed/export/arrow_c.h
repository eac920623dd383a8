#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "ringfeed/instance.h"
#include "ringfeed/status.h"
#include "ringfeed/tables/arrow_structures.h"
#include "ringfeed/tensor.h"

/// @file
/// @details Batches for Arrow's libraries (pyarrow, Polars, DuckDB, cuDF), their memory shared, by
/// Arrow's C data, C stream and C device data interfaces.

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
