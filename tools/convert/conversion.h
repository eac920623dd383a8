#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "ringfeed/open_options.h"
#include "ringfeed/record.h"
#include "ringfeed/status.h"
#include "ringfeed/tables/table_source.h"
#include "tools/given_files.h"

namespace ringfeed::tools {

/// How to turn the records of some files into another file's.
struct ConversionOptions {
  OpenOptions open;           ///< how the inputs are read
  std::string to;             ///< format as in OpenRecordWriter
  std::string parse{};        ///< makes records rows (ParserFromText); "": as they are
  TableOptions tables{};      ///< how rows of tables are read, but for `open`
  bool force = false;         ///< also files that are up to date
  bool derived_name = false;  ///< the user did not give the output's name: a link is replaced
};

/// The result for one output file.
struct Conversion {
  enum class Outcome : std::uint8_t { kFailed, kWritten, kUpToDate };

  std::string output;
  Outcome outcome = Outcome::kFailed;
  std::uint64_t records = 0;  ///< written
  std::uint64_t payload_bytes = 0;
  std::vector<DamagedRange> damage;  ///< of the inputs, skipped or not
  Status status;                     ///< why there is no output
};

/// Callbacks of a running conversion; may be called on any thread.
struct ConversionWatch {
  ByteProgress progress;
  std::stop_token stop;
};

/// Writes the records of `inputs`, one file after the other, to `output`, which appears when it is
/// complete. Never throws; thread safe for different outputs.
Conversion Convert(const std::vector<std::string>& inputs, const std::string& output,
                   const ConversionOptions& options, const ConversionWatch& watch);

/// The result of a conversion into parts, besides the parts.
struct PartsResult {
  std::vector<DamagedRange> damage;  ///< of the inputs
  Status status;                     ///< why it ended before the last part
};

/// The same to PartName(output, 0), 1, …, each of `records_per_file` records except the last. Parts
/// that are up to date are counted and not written again; fails if existing parts cannot be of the
/// same conversion. `done` gets each part in turn.
PartsResult ConvertToParts(const std::vector<std::string>& inputs, const std::string& output,
                           std::uint64_t records_per_file, const ConversionOptions& options,
                           const ConversionWatch& watch,
                           const std::function<void(const Conversion&)>& done);

/// The task of `ringfeed convert`: some files into one, each into a file of its own, or all into
/// parts.
struct ConversionPlan {
  std::vector<std::string> inputs;
  std::string output;                  ///< a file, or the folder that `outputs` are in
  std::vector<std::string> outputs;    ///< one for each input; empty if the output is a file
  std::uint64_t records_per_file = 0;  ///< of a part; 0: no parts
  ConversionOptions options;           ///< both formats checked

  bool into_folder() const { return !outputs.empty(); }
};

/// Completes a plan: `paths` are globs and files, the output last. Throws Error if names, formats
/// and options do not fit together.
ConversionPlan PlanConversion(std::vector<std::string> paths, std::uint64_t records_per_file,
                              ConversionOptions options);

/// Makes the output's folder if it is missing, and removes the files that a killed conversion of
/// the same plan left there. Throws Error.
void PrepareFolder(const ConversionPlan& plan);

}  // namespace ringfeed::tools
