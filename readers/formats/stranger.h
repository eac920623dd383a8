#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace ringfeed {

/// A kind of file that users have beside their records, and no format reads.
struct Stranger {
  /// Whole files are one record each, for the format raw.
  enum class Kind { kOther, kWhole, kCompression };
  std::string_view name;  ///< "Parquet"
  std::string_view way;   ///< what to do with it, in words; none of a whole file
  Kind kind = Kind::kOther;
};

/// By the file's first bytes; null if they are of none. Thread safe.
const Stranger* FindStranger(std::span<const std::byte> head);
/// A compression that no first bytes tell, by the ending of a name; null if it is none.
const Stranger* FindStrangeEnding(std::string_view file_name);
/// What a folder is that stands for one data set of another program, and what to do; "" if it is
/// none known. Blocks.
std::string StrangeFolder(const std::string& folder);

}  // namespace ringfeed
