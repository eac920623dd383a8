#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ringfeed/status.h"

namespace ringfeed {

/// Whether a file of that name may be the table of a data set of many files.
bool IsTableName(std::string_view file);
/// Sets *files to the files of the data set of which `file` is the table, or the folder with that
/// table, in its order; to none if it is neither. Fails if the table is damaged, or names files
/// elsewhere than below its folder. Blocks.
Status FindDataSet(const std::string& file, std::vector<std::string>* files);

/// The same of a table, of which `table` is the path or the address.
Status ReadDataSet(const std::string& table, std::vector<std::string>* files);

/// Whether WriteDataSet can write a table of files with these names in the folder, before they are
/// written: kInvalidArgument if the format has a table, and one there lists a file that is not
/// `is_ours` by its name, or a name is no UTF-8. Blocks.
Status CheckNewDataSet(std::string_view format, const std::string& folder,
                       std::span<const std::string> names,
                       const std::function<bool(const std::string&)>& is_ours);

/// Writes the table of the data set that these files, in one folder and of the format of that name,
/// make up; without a record in them it removes the table. Does nothing if that format has none.
/// Fails as CheckNewDataSet. Blocks.
Status WriteDataSet(std::string_view format, std::span<const std::string> files);

/// Compares a file with what the table of a data set beside it says of it: the number of its
/// records (`records`), its bytes, its hashes. OK if it is not listed. kDamaged, with what differs.
/// Hashes that are not known here are left out. Blocks.
Status CheckListed(const std::string& file, std::uint64_t records);

}  // namespace ringfeed
