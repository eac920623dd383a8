#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/pending_copy.h"
#include "readers/chain/graph.h"
#include "readers/chain/unsettled_batch.h"
#include "ringfeed/decorators.h"
#include "ringfeed/reader.h"
#include "ringfeed/tensor.h"

namespace ringfeed {

class DirectReads;

/// The library's own access to what a Reader is a handle on.
class ReaderAccess {
 public:
  /// A handle on the chain that ends in `node`.
  static Reader Of(std::shared_ptr<GraphNode> node) { return Reader(std::move(node)); }
  /// Null of an empty handle.
  static const std::shared_ptr<GraphNode>& NodeOf(const Reader& reader) { return reader.node_; }
  /// Whether what it delivers lies on a device, so that the host cannot read it.
  static bool IsOnDevice(const Reader& reader);
  /// Says before the first read which fields of rows need not be copied to the batch, for readers
  /// that call TryReadNext of this class. Does nothing for a chain without Batch.
  static void LeaveFields(const Reader& reader, const LeftFieldRules& rules);
  /// Says that threads read ahead of what they hand out from now on, until EndReading. A restart of
  /// the chain then starts its next pass, even if no thread has read yet. A chain on the same
  /// shared reader cannot start again meanwhile: the threads would hand out what they read before.
  static void BeginReading(const Reader& reader);
  static void EndReading(const Reader& reader);
  /// Throws Error as ReInit does, before anything is lost.
  static void CheckReInit(const Reader& reader);
  /// Offers the chain reads into a device's memory, before the first read, beside LeaveFields: if
  /// its records suit that, all of their fields stay in that memory.
  static void ReadDirectly(const Reader& reader, std::shared_ptr<DirectReads> reads);
  /// Reader::TryReadNext, which also says what to copy into the batch: valid as long as the batch
  /// is held, in the order of its places. Other reads copy it themselves. `unsettled` gets the
  /// batch if checksums are left, else null.
  static ReadResult TryReadNext(const Reader& reader, Instance* instance,
                                const ReadOptions& options, std::span<const PendingCopy>* pending,
                                std::shared_ptr<UnsettledBatch>* unsettled = nullptr);
  /// The rows of a whole batch, if the chain's run goes on in the middle of a pass; 0 if it does
  /// not, or if batches have no usual number of rows.
  static std::int64_t RowsBefore(const Reader& reader);
  /// The most rows that a batch of this rank can have; 0 without Batch.
  static std::int64_t WholeRows(const Reader& reader);
  /// The same, if all batches except the last ones of passes have so many; else 0.
  static std::int64_t UsualRows(const Reader& reader);
  /// Why checksums are not left, in a few words; empty if they are.
  static std::string WhySumsAreEarly(const Reader& reader);
};

/// Map, for a function that messages call `function_name`.
Reader MapNamed(const Reader& input, std::vector<FieldSpec> fields, MapFunction function,
                std::string function_name);

}  // namespace ringfeed
