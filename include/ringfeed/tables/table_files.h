#pragma once

#include <string>
#include <vector>

#include "ringfeed/reader.h"
#include "ringfeed/tables/table_source.h"

/// Files of tables, by Arrow's own readers. It is the component ringfeed::arrow: a program links
/// that. Nothing of Arrow is needed to include this.
namespace ringfeed {

/// The rows of Parquet files as fields, as OpenTable has them: a row group is a group. `files` are
/// names as OpenFiles takes them, also of stores; of a folder's files those whose names begin with
/// "_" are left out. All must have the wanted columns, of one type.
///
/// A footer is read of each file at once, and of a row group the chunks of the wanted columns when
/// its rows are needed; each group is decoded by one thread, and several at a time. Checksums of
/// pages are checked if the file has them; few writers make them, so a flipped bit in a value may
/// pass. What Arrow refuses is a damaged group. Of a file without a readable footer nothing else is
/// known: it is one damaged row, if options.open.on_damage is kSkip.
///
/// Throws Error: as OpenTable; kNotFound if there is no such file, kDamaged for a footer,
/// kUnsupported for encrypted files and those that are no Parquet, kInvalidArgument if the files'
/// columns are of different types.
Reader OpenParquet(const std::vector<std::string>& files, const TableOptions& options = {});

/// The same of Arrow's IPC files (Feather 2): a record batch is a group. Local ones are mapped.
/// Files of Arrow's stream format have no table of their batches: they are read whole at once, all
/// of `files` or none, and are a table in memory.
Reader OpenArrowIpc(const std::vector<std::string>& files, const TableOptions& options = {});

}  // namespace ringfeed
