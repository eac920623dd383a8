#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ringfeed/open_options.h"
#include "ringfeed/parsers.h"
#include "ringfeed/reader.h"
#include "ringfeed/record.h"
#include "ringfeed/source.h"
#include "ringfeed/status.h"
#include "ringfeed/tables/table_source.h"
#include "ringfeed/tensor.h"

namespace ringfeed::tools {

/// What was skipped, or the failure of reading: under kFail nothing after it is delivered.
struct MetDamage {
  std::vector<DamagedRange> ranges;  ///< the first 1,000
  std::uint64_t records = 0;         ///< known records, and ranges without any
  std::vector<DataWarning> warnings{};
};

/// Adds the failure of a damaged file: everything from there to its end.
void AddFailure(const Status& failure, const std::string& file, MetDamage* damage);

/// The records of one file (or stream) in their order in it, for commands that process files one by
/// one: a chain of OpenFiles alone, on one reader thread.
class FileRecords {
 public:
  /// Takes all of `options` but the order. Throws Error if the set-up does not work.
  FileRecords(std::string file, const OpenOptions& options);

  /// The same for a stream. Throws Error as above.
  FileRecords(std::unique_ptr<StreamSource> stream, const OpenOptions& options);

  /// Some next records, valid until the next call; a damaged one may be a null span.
  ReadResult Next(std::span<const RecordSpan>* records);
  /// The same, but kTimeout if nothing came until `deadline`; available records come in any case.
  ReadResult Next(std::span<const RecordSpan>* records, Deadline deadline);
  /// The failure after kFailed.
  Status status() const { return reader_.status(); }
  /// Costs about as much as reading a megabyte.
  MetDamage Damage() const;
  /// Ends a Next that waits, from any thread.
  void Close() { reader_.Close(); }

 private:
  std::string file_;
  Reader reader_;
  RecordBlock block_;
  std::vector<RecordSpan> intact_;  ///< of the block, if not all are
};

/// The same for parsed rows, one by one.
class FileRows {
 public:
  /// Throws Error if the set-up does not work.
  FileRows(std::string file, const OpenOptions& options, std::shared_ptr<const Parser> parser);
  /// Of a table of that format (TableFormat).
  FileRows(std::string file, const OpenOptions& options, const std::string& table_format,
           const TableOptions& tables);

  ReadResult Next(Instance* row) { return reader_.TryReadNext(row); }
  std::vector<FieldSpec> fields() const { return reader_.fields(); }
  Status status() const { return reader_.status(); }
  MetDamage Damage() const;
  void Close() { reader_.Close(); }

 private:
  std::string file_;
  Reader reader_;
};

}  // namespace ringfeed::tools
