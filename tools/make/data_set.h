#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "ringfeed/status.h"

namespace ringfeed::tools {

/// One kind of data that `ringfeed make` knows.
struct DataKind {
  std::string_view name;
  std::string_view file_ending;
  std::size_t record_bytes;  ///< of a record, about, if no size is asked for
  bool sizable;              ///< true if --record-bytes can be chosen
  std::string_view parse;    ///< what to hand to `feed --parse`
  std::string_view what;     ///< for the help
};
const std::vector<DataKind>& DataKinds();

/// A data set to be made. Its contents are a function of these values alone, except threads.
struct DataSetPlan {
  std::string folder;
  const DataKind* kind = nullptr;
  std::size_t record_bytes = 0;
  std::size_t files = 0;
  std::uint64_t bytes = 0;    ///< about as many payload bytes in all, if `records` is 0
  std::uint64_t records = 0;  ///< exactly as many
  std::uint64_t seed = 0;
  unsigned threads = 0;  ///< files written at a time, at least one
};

/// The sums of what was written.
struct DataSetTotals {
  std::uint64_t files = 0;
  std::uint64_t records = 0;
  std::uint64_t payload_bytes = 0;
};

/// "part-00003-of-00008.tfrecord".
std::string DataSetFileName(const DataSetPlan& plan, std::size_t file);
/// The format that its files have, as OpenOptions::format spells it.
std::string DataSetFormat(const DataSetPlan& plan);

/// Writes the files, several at a time. `progress` is called now and then on the caller's thread
/// with the payload bytes so far. A file that is not complete at the end is removed.
Status WriteDataSet(const DataSetPlan& plan, const std::function<void(std::uint64_t)>& progress,
                    std::stop_token stop, DataSetTotals* totals);

}  // namespace ringfeed::tools
