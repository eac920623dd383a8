#pragma once

#include <string>
#include <vector>

#include "ringfeed/open_options.h"
#include "ringfeed/reader.h"
#include "ringfeed/tables/table_source.h"

namespace CLI {
class App;
}

namespace ringfeed::tools {

/// Adds --columns, which fills `tables`.
void AddColumnsOption(CLI::App* app, TableOptions* tables);
/// Adds --columns and --nulls.
void AddTableOptions(CLI::App* app, TableOptions* tables);

/// What files are, if they are tables that this build reads (the component ringfeed::arrow):
/// "parquet" or "arrow", by the first one's first bytes, or by its name if it is an address. Else
/// empty, also if `options` name a format. Throws Error if they are none, and `tables` says how
/// their rows are read.
std::string TableFormat(const std::vector<std::string>& files, const OpenOptions& options,
                        const TableOptions& tables = {});
/// The rows of files that are of that `format`; `options` are in place of tables.open. Throws
/// Error.
Reader OpenTableRows(const std::string& format, const std::vector<std::string>& files,
                     const OpenOptions& options, TableOptions tables = {});

}  // namespace ringfeed::tools
