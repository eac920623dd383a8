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

/// What a Reader is a handle on, for the library alone.
class ReaderAccess {
 public:
  /// A handle on the chain that ends in `node`.
  static Reader Of(std::shared_ptr<GraphNode> node) { return Reader(std::move(node)); }
  /// Null of an empty handle.
  static const std::shared_ptr<GraphNode>& NodeOf(const Reader& reader) { return reader.node_; }
  /// Whether what it delivers lies on a device: not for who would read it on the host.
  static bool IsOnDevice(const Reader& reader);
  /// Says before the first read which fields of rows may stay where they were read, for who reads
  /// by TryReadNext of this class. Nothing for a chain without Batch.
  static void LeaveFields(const Reader& reader, const LeftFieldRules& rules);
  /// Says that threads read ahead of what they hand out from now on, until EndReading. Whoever
  /// starts the chain again starts its next pass, also if none of them has come to read yet. A
  /// chain on the same shared reader cannot start again meanwhile: they would hand out what they
  /// read before.
  static void BeginReading(const Reader& reader);
  static void EndReading(const Reader& reader);
  /// Throws Error as ReInit does, before anything is lost.
  static void CheckReInit(const Reader& reader);
  /// Offers the chain reads into a device's memory, before the first read, beside LeaveFields:
  /// where its records suit that, all of their fields are left there.
  static void ReadDirectly(const Reader& reader, std::shared_ptr<DirectReads> reads);
  /// Reader::TryReadNext, which also says what is to be copied into the batch: valid as long as the
  /// batch is held, in the order of its places. Other reads copy it themselves.
  /// Where checksums are left `unsettled` gets the batch, else null.
  static ReadResult TryReadNext(const Reader& reader, Instance* instance,
                                const ReadOptions& options, std::span<const PendingCopy>* pending,
                                std::shared_ptr<UnsettledBatch>* unsettled = nullptr);
  /// The rows of a whole batch, where the chain's run goes on in the middle of a pass; 0 where it
  /// does not, or batches have no usual number of rows.
  static std::int64_t RowsBefore(const Reader& reader);
  /// The most rows that a batch of this rank can have; 0 without Batch.
  static std::int64_t WholeRows(const Reader& reader);
  /// The same, if all but the last ones of passes have so many; else 0.
  static std::int64_t UsualRows(const Reader& reader);
  /// Why checksums are not left, in a few words; empty where they are.
  static std::string WhySumsAreEarly(const Reader& reader);
};

/// Map, for a function that messages call `function_name`.
Reader MapNamed(const Reader& input, std::vector<FieldSpec> fields, MapFunction function,
                std::string function_name);

}  // namespace ringfeed
