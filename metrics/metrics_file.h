#pragma once

#include <string>
#include <utility>

#include "metrics/own_descriptor.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// A file that always holds a whole text: each text is written to another file, which then replaces
/// it. One process at a time writes it: the one that has locked the file itself. One thread.
class MetricsFile {
 public:
  explicit MetricsFile(std::string path) : path_(std::move(path)) {}

  /// Fails if another process writes that file, if the name is not a file's, or if the file holds
  /// something else.
  Status Write(const std::string& text);

 private:
  /// Whether the existing file, if any, may be replaced; locks it.
  Status TakeOver();
  Status MakeBeside(const std::string& name, const std::string& text, OwnDescriptor* file) const;
  Status Failed(const std::string& why) const;

  const std::string path_;
  OwnDescriptor locked_;  ///< the existing file, if this process wrote it
};

}  // namespace ringfeed
