#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/harness.h"

namespace ringfeed::bench {

/// Runs `words` (a path, or a name to look for, and arguments) with its standard output in the file
/// `output`, and waits for it: what it took from its start to its end. *exit_status is -1 if a
/// signal ended it; without the pointer each status but 0 throws. Throws Error if no process can be
/// made.
LoopResult RunChild(const std::vector<std::string>& words, const std::string& output,
                    int* exit_status = nullptr);

/// The same of a line of bash.
LoopResult RunShell(const std::string& line);

/// The ringfeed command of this build tree, which stands beside the benchmarks' folder.
std::string RingfeedCommand();

/// A file's bytes.
std::string ReadWhole(const std::string& path);
/// Of a file's bytes.
std::uint64_t DigestOfFile(const std::string& path);

}  // namespace ringfeed::bench
