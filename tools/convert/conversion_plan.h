#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/convert/conversion.h"

namespace ringfeed::tools {

/// What `ringfeed convert` is to do: some files into one, each into a file of its own, or all into
/// parts.
struct ConversionPlan {
  std::vector<std::string> inputs;
  std::string output;                  ///< a file, or the folder that `outputs` are in
  std::vector<std::string> outputs;    ///< one for each input; empty where the output is a file
  std::uint64_t records_per_file = 0;  ///< of a part; 0: no parts
  ConversionOptions options;           ///< both formats checked

  bool into_folder() const { return !outputs.empty(); }
};

/// Completes a plan: `paths` are globs and files, the output last. Throws Error where names,
/// formats and options do not go together.
ConversionPlan PlanConversion(std::vector<std::string> paths, std::uint64_t records_per_file,
                              ConversionOptions options);

/// Makes the output's folder where it is missing, and removes what a killed conversion of the same
/// plan left there. Throws Error.
void PrepareFolder(const ConversionPlan& plan);

}  // namespace ringfeed::tools
