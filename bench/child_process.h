#pragma once

#include <string>
#include <vector>

namespace ringfeed::bench {

/// What a program took, from its start to its end.
struct ChildFigures {
  double cpu_s = 0;
  double wall_s = 0;
  int exit_status = -1;  ///< -1: it could not be run, or a signal ended it
};

/// Runs `words` (a path, or a name to look for, and arguments) with its standard output in the file
/// `output`, and waits for it. Throws Error where no process can be made.
ChildFigures RunChild(const std::vector<std::string>& words, const std::string& output);

/// The ringfeed command of this build tree, which stands beside the benchmarks' folder.
std::string RingfeedCommand();

}  // namespace ringfeed::bench
