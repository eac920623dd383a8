#pragma once

#include <cstddef>
#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "ringfeed/open_options.h"
#include "ringfeed/record.h"
#include "ringfeed/status.h"
#include "ringfeed/tables/table_source.h"
#include "tools/given_files.h"

namespace ringfeed::tools {

/// So many damaged ranges of a file are listed at most.
inline constexpr std::size_t kMostRanges = 1000;

/// The result of reading a whole file with every checksum.
struct FileCheck {
  std::string file;
  std::string format;  ///< "" if it is not known
  std::uint64_t records = 0;
  std::uint64_t payload_bytes = 0;
  std::uint64_t damaged_records = 0;
  std::vector<DamagedRange> damage;  ///< the first kMostRanges
  std::vector<DataWarning> warnings;
  bool strict = false;  ///< a file with a warning is not intact
  Status status;        ///< why it could not be read to its end

  /// Every byte was read and is as it should be.
  bool intact() const {
    return status.ok() && damage.empty() && damaged_records == 0 && !(strict && warned());
  }
  bool warned() const { return !warnings.empty(); }
};

/// Reads `file`, without copying its contents. Of a table (TableFormat) every value of those
/// columns is decoded, and `payload_bytes` are theirs. Ends soon with kCancelled when a stop is
/// requested. Never throws; thread safe.
FileCheck CheckFile(const std::string& file, const OpenOptions& options,
                    const ByteProgress& progress, const std::stop_token& stop,
                    const TableOptions& tables = {});

}  // namespace ringfeed::tools
