#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/pending_copy.h"
#include "readers/engine/batches/batch_buffer.h"
#include "readers/engine/batches/plan_sink.h"
#include "readers/parsers/parser.h"
#include "ringfeed/record.h"

namespace ringfeed {

/// The rows of a task, as far as leaving their fields where they stand goes.
struct LeavableRows {
  const WriteTask* task = nullptr;
  std::span<const RecordSpan> records;
  std::span<Block* const> blocks;  ///< that the records stand in, each once
};

/// Has long fields of rows stay in their blocks: the batch gets a PendingCopy for each, and keeps
/// the blocks. All rows of a task alike, field by field; and only as long as the host has memory
/// for blocks that are kept, else the rows are written as ever. Immutable; by any writer.
class LeftFields {
 public:
  LeftFields(const Parser* parser, const LeftFieldRules& rules, PlanHost* host);

  /// Whether there is a field that may be left at all.
  bool any() const { return !candidates_.empty(); }
  /// Leaves what can be left of the rows, which are located. The targets of those fields then have
  /// no data. `copies` is working memory. Whether there was any.
  bool Leave(const LeavableRows& rows, const FieldLocation* locations,
             std::vector<ColumnTarget>* targets, std::vector<PendingCopy>* copies) const;

 private:
  bool IsLong(const LeavableRows& rows, const FieldLocation* locations, std::size_t field) const;
  bool AddCopies(const LeavableRows& rows, const FieldLocation* locations, std::size_t field,
                 const ColumnTarget& target, std::vector<PendingCopy>* copies) const;
  bool KeepBlocks(std::span<Block* const> blocks) const;

  const Parser* const parser_;
  const LeftFieldRules rules_;
  PlanHost* const host_;
  std::vector<std::size_t> candidates_;  ///< fields
};

}  // namespace ringfeed
