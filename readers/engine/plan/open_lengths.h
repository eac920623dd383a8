#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <stop_token>

#include "readers/engine/files/file_lengths.h"
#include "readers/engine/files/file_table.h"
#include "readers/engine/files/record_set.h"
#include "readers/engine/plan/execution_plan.h"
#include "readers/index/kept_file.h"

namespace ringfeed {

struct OpenedColumns {
  FileLengths::Columns columns;  ///< in the files' order; null of a file without rows
  // How many were come by so:
  std::size_t computed = 0;
  std::size_t kept = 0;
  std::size_t made = 0;
};
/// The length columns of a set's files. Those that are not kept are computed if the index tells
/// them (Megatron's, rows of one size). Measures others, several files at a time, and keeps them if
/// they can be kept. Several ranks begin at different files, and look whether another one kept a
/// file meanwhile. Blocks. Throws Error if a file cannot be measured, if several ranks would have
/// to read much (the message has the command that does it once), and with kCancelled if `stop` is
/// requested.
OpenedColumns OpenColumns(const RecordSet& set, const SourceNode& source, const SharedSteps& steps,
                          const std::stop_token& stop);

/// Throws Error if a record that is read was damaged when it was measured: it is planned nowhere,
/// so that it has no turn at which to fail. `holes`: so many of each file.
void CheckHoles(const FileTable& table, std::span<const std::uint64_t> holes);

}  // namespace ringfeed
