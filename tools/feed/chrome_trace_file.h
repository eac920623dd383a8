#pragma once

#include <fstream>
#include <string>

#include "ringfeed/timeline.h"

namespace ringfeed::tools {

/// A file for a timeline: opened before a run, so that a name that cannot be written ends the run
/// before it began.
class ChromeTraceFile {
 public:
  /// Throws Error.
  explicit ChromeTraceFile(std::string path);
  /// Throws Error where it could not be written whole.
  void Write(const Timeline& timeline);

 private:
  const std::string path_;
  std::ofstream file_;
};

}  // namespace ringfeed::tools
