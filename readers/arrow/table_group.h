#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/owned.h"
#include "readers/arrow/array_column.h"
#include "readers/arrow/column_type.h"
#include "ringfeed/stats.h"
#include "ringfeed/status.h"
#include "ringfeed/tables/arrow_structures.h"
#include "ringfeed/tables/table_source.h"

namespace ringfeed {

/// Reads the schema of a stream. kDamaged if the producer fails.
Status ReadStreamSchema(ArrowArrayStream* stream, Owned<ArrowSchema>* schema);
/// The stream's next array; released at the end. As ReadStreamSchema.
Status ReadStreamArray(ArrowArrayStream* stream, Owned<ArrowArray>* array);

/// The decoded rows of one group: the wanted columns of its arrays. Immutable; thread safe.
class TableGroup {
 public:
  /// Reads the stream to its end. kDamaged if it has other rows or fields than the table says, or
  /// thousands of arrays without rows.
  static Status Read(ArrowArrayStream* stream, const std::vector<std::string>& columns,
                     const std::vector<FieldSpec>& fields, std::uint64_t rows, TableGroup* group);

  /// Rows of one array of the stream.
  struct Part {
    bool Has(std::uint64_t row) const {
      return row - first_row < static_cast<std::uint64_t>(array->length);
    }

    std::uint64_t first_row = 0;
    Owned<ArrowArray> array;
    std::vector<PathColumn> columns;
  };
  /// The part that has the row, which is less than the group's rows.
  const Part& PartOf(std::uint64_t row) const;

 private:
  std::vector<Part> parts_;
};

/// The groups that rows are taken from: each is opened by the first thread that asks, and the last
/// ones are kept. Thread safe.
class OpenGroups {
 public:
  /// `fields`: those of the wanted columns.
  OpenGroups(std::shared_ptr<TableSource> table, const TableOptions& options,
             std::vector<FieldSpec> fields)
      : table_(std::move(table)),
        columns_(options.columns),
        kept_groups_(std::max(options.kept_groups, options.open.cycle)),
        fields_(std::move(fields)) {}

  /// Blocks while it is opened. What fails is tried again by the next call.
  Status Get(std::uint64_t number, std::shared_ptr<const TableGroup>* group);
  /// So many rows were taken out of groups.
  void NoteTaken(std::size_t rows) { taken_rows_.fetch_add(rows, std::memory_order_relaxed); }
  /// So many bytes of numbers of rows were made.
  void NoteMade(std::size_t bytes) { made_bytes_.fetch_add(bytes, std::memory_order_relaxed); }
  void AddTo(PipelineStats* stats) const;
  /// Refuses an order that takes each row of another group, unless all groups are kept.
  void CheckSingleRows() const;

 private:
  /// Its mutex is held while it is opened; who else wants it waits.
  struct Entry {
    std::mutex mutex;
    std::weak_ptr<const TableGroup> group;
  };

  Status Open(std::uint64_t number, std::shared_ptr<const TableGroup>* group);
  void Keep(const std::shared_ptr<const TableGroup>& group);

  const std::shared_ptr<TableSource> table_;
  const std::vector<std::string> columns_;
  const std::size_t kept_groups_;
  const std::vector<FieldSpec> fields_;
  std::mutex mutex_;  ///< guards the following
  std::map<std::uint64_t, std::shared_ptr<Entry>> entries_;
  std::deque<std::shared_ptr<const TableGroup>> kept_;  ///< the one that was used last is the first
  std::atomic<std::uint64_t> opened_groups_{0};
  std::atomic<std::uint64_t> decoded_rows_{0};
  std::atomic<std::uint64_t> taken_rows_{0};
  std::atomic<std::uint64_t> made_bytes_{0};
};

}  // namespace ringfeed
